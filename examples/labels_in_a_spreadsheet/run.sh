# Ratings in words by two people, joined by columns with other names.
cje analyze evals.csv --labels ratings.csv --on prompt_id=Question --on policy=Version --label-map poor=1,fair=2,good=3 --baseline old
