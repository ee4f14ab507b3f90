# Predicted risks at two horizons against what happened, under censoring; then two models, paired.
cje survival check preds.csv --time t --event e --horizons 1,2 --report page.html
cje survival check preds.csv --time t --event e --horizons 1,2 --risk 'risk_{t}' --risk 'old_{t}'
