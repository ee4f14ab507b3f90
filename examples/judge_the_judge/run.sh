# How good are two judges, and what do their errors depend on? One flatters long responses.
cje judge evals.csv --report judges.html
