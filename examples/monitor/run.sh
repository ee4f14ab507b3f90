# The value and the judge's calibration over twenty days, looked at as often as you like.
cje monitor march.csv april.csv --time day
