# Predicted risks at two horizons against what happened, under censoring.
cje survival check preds.csv --time t --event e --horizons 1,2 --report page.html
