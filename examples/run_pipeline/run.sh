# Every policy answers, the judge scores, a slice is labelled: small models in this process.
cje validate config.yaml
cje run config.yaml
cje status config.yaml
