# Predicted risks of relapse (1), where death (2) competes with it.
cje survival check preds.csv --time t --event event --horizons 1,3 --cause 1 --report page.html
