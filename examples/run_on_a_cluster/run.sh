# The same run as tasks on a Ray cluster (pip install 'causal-judge[ray]'): then `cje run config.yaml`.
cje validate config.yaml
