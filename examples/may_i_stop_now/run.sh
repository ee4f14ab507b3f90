# The same study after 80 and after 240 labels, with intervals that hold at both looks.
cje analyze after_80.csv --baseline prod --anytime
cje analyze after_240.csv --baseline prod --anytime
cje gate after_80.csv --baseline prod --candidate cand --anytime  # exit code 2
