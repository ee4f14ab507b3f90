# The value, the judge's calibration and its scores of ten anchors over twenty days: the judge changes on the fifteenth.
cje monitor march.csv april.csv --time day --anchor anchor --picture monitor.png  # exit code 2
# The same rows, scored again after an update of the judge.
cje drift old.csv new.csv --on id --margin 0.02  # exit code 1
