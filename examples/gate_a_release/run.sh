# May the candidate be released? Exit code 0: yes; 1: no; 2: undecided.
cje gate evals.csv --baseline prod --candidate cand-v2 --margin 0.1 --markdown gate.md
