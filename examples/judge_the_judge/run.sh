# How good is the judge of the support desk, by topic too? It prefers long answers.
cje judge ../support/evals.csv --by topic --report judge.html
