# People's ratings in a file of their own, joined by other names. To collect new ones in a page:
#   cje label responses.csv --baseline prod --candidate cand --count 60 --scale 1-5
cje analyze responses.csv --labels ratings.csv --on prompt_id=id --on policy=version --baseline prod
