# Three versions compared two at a time: win rates, head to head, a ranking, a page.
cje analyze pairs.csv --baseline prod --report report.html
cje gate pairs.csv --baseline prod --candidate cand-a
