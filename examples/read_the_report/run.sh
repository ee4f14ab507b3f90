# A page with everything: answer, estimates, differences, findings, calibration, samples.
cje analyze ../support/evals.csv --baseline prod --by topic --report report.html
