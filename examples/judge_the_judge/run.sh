# How good are two judges, and what do their errors depend on? One overrates long responses.
cje judge evals.csv --report judges.html
