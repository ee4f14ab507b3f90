# A classifier that is too sure of itself, and the map that corrects it.
cje classifier check preds.csv --map map.json
