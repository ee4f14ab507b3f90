# Every policy answers, the judge scores, a slice is labelled: no log-probs, and here no server.
cje demo --pipeline direct --out demo
