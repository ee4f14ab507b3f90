# Is the new prompt better, or at most 0.1 points worse? The same within each topic.
cje analyze evals.csv --baseline old --margin 0.1 --by topic
