# How many labels: from a fully labelled pilot, and from numbers alone.
cje plan pilot.csv --detect 0.2
cje plan --sd 0.25 --r2 0.5 --width 0.05 --label-cost 2 --response-cost 0.02
