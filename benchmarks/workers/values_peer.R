# Brier score, AUC and observed events of riskRegression and survival; CSV in, JSON out.
# Run by benchmarks/values.py as: Rscript values_peer.R rows.csv; columns time, status, risk.
suppressMessages({library(survival); library(riskRegression); library(prodlim); library(jsonlite)})
rows <- read.csv(commandArgs(trailingOnly = TRUE)[1])
horizon <- rows$horizon[1]
values <- function(formula, ...) {
  score <- Score(list(m = rows$risk), formula = formula, data = rows, times = horizon,
                 cens.model = "km", metrics = c("brier", "auc"), summary = "ipa", conf.int = TRUE,
                 contrasts = FALSE, ...)
  brier <- as.data.frame(score$Brier$score); auc <- as.data.frame(score$AUC$score)
  brier <- brier[brier$model == "m", ]
  list(brier = brier$Brier, brier_se = brier$se, ipa = brier$IPA, auc = auc$AUC, auc_se = auc$se)
}
alone <- values(Surv(time, status == 1) ~ 1)
km <- summary(survfit(Surv(time, status == 1) ~ 1, data = rows), times = horizon)
alone$oe <- (1 - km$surv) / mean(rows$risk)
competing <- values(Hist(time, status) ~ 1, cause = 1)
rows$state <- factor(rows$status, 0:2)
aj <- summary(survfit(Surv(time, state) ~ 1, data = rows), times = horizon)
competing$oe <- aj$pstate[, 2] / mean(rows$risk)
versions <- sapply(c("survival", "riskRegression", "prodlim"),
                   function(p) as.character(packageVersion(p)))
cat(toJSON(list(alone = alone, competing = competing, versions = as.list(versions)),
           digits = 15, auto_unbox = TRUE))
