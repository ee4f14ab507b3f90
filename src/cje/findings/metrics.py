"""Findings of classification and survival metrics."""

from __future__ import annotations

from cje.findings.finding import Rule, Severity

__all__ = ["RULES"]

POOLED_CALIBRATION = Rule(
    "pooled-calibration",
    "class {name!r} is the top class of {count:g} calibration rows, fewer than {min_count:g}; it "
    "uses the map fitted to all classes together",
    "collect more rows of this class, or lower min_count",
    "Too few rows to calibrate this class by itself.",
)
LABEL_CHANGES = Rule(
    "label-changes",
    "calibration moves the most probable class of {rate:.1%} of the calibration rows",
    'call predict_top_label, or set rest to "lead", for the classifier\'s own label',
    "After calibration another class can be the most probable.",
    (Severity.INFO,),
)
CONFIDENCE_RAISED = Rule(
    "confidence-raised",
    "the calibrated confidence is below 1/{n_classes} in {rate:.1%} of the calibration rows; "
    "predict_proba raises it, because the leading class of a distribution has at least that much",
    "use predict_top_label for the confidence as it is",
    "A leading class has at least 1/K of the probability.",
    (Severity.INFO,),
)
MISCALIBRATED = Rule(
    "miscalibrated",
    "{metric} is {value:.3f}; a calibrated model would score {null:.3f} on these rows "
    "(p = {p_value:.2g})",
    "recalibrate on held-out rows: cje.classification fits the map",
    "The classifier's probabilities are not the frequencies observed.",
    command_action="recalibrate on held-out rows: cje classifier check --map FILE saves the map",
)
SUBGROUP_MISCALIBRATED = Rule(
    "subgroup-miscalibrated",
    "miscalibrated (p = {p_value:.2g}, adjusted for the number of subgroups)",
    "recalibrate this subgroup on rows of its own",
    "The classifier is miscalibrated in one part of the data.",
)
FEW_PREDICTIONS = Rule(
    "few-predictions",
    "classes predicted in fewer than {least} rows: {classes}; their values are noisy, and they "
    "share one recalibration map",
    "collect more rows of these classes",
    "A class is predicted too rarely to be assessed by itself.",
    (Severity.INFO,),
    thresholds={"rows": 20},
)
CENSORING_DEPENDS_ON_RISK = Rule(
    "censoring-depends-on-risk",
    "{metric} assumes censoring independent of the covariates, but censoring before the horizon "
    "follows the predicted risk (hazard ratio of censoring, upper against lower quartile of risk: "
    "{hazard_ratio:.2f}; p = {p_value:.2g})",
    "use the method 'conditional' (ICI, curve and O/E at a horizon) and calibration_in_the_large, "
    "which allow censoring to depend on the predicted risk",
    "The metric is biased where censoring depends on the risk.",
    thresholds={"p_value": 0.01, "spread": 0.1},
)
NAIVE_ICI = Rule(
    "naive-ici",
    "the naive ICI counts early-censored subjects as event-free and uses robust lowess iterations; "
    "it is far from zero even for a perfect model",
    "use the method 'pseudo', or 'conditional' where censoring depends on the risk",
    "The formula as published ignores censoring.",
)
SURVIVAL_ZERO = Rule(
    "survival-zero",
    "{count} predicted survival probabilities are exactly 0; they were replaced by {floor:.3g}",
    "smooth the model's tail, or assess it at a horizon with observed_expected_at_horizon",
    "A survival probability of 0 is an infinite cumulative hazard.",
)
SURVIVAL_ONE = Rule(
    "survival-one",
    "{count} subjects had an event where the model gave survival exactly 1",
    "check the model's early times: it calls these events impossible",
    "The model rules out events that occurred.",
)
ONE_MINUS_SURVIVAL = Rule(
    "one-minus-survival",
    "expected events were computed as 1 - S(T), which is not the expected number of events: a "
    "perfect model scores about 2 without censoring",
    "use expected events by 'cumulative_hazard'",
    "The formula as published is not the expected number of events.",
)
METRIC_UNDEFINED = Rule(
    "metric-undefined",
    "{reason}",
    "collect data with events, or check the event indicators and the predictions",
    "The metric has no value on these data; it is NaN, with this finding.",
    (Severity.REFUSE,),
)
NO_EVENTS = Rule(
    "no-events",
    "O/E is 0: there are no events, so the upper limit is Poisson's",
    "check that event_indicators marks events with 1",
    "Without events only an upper limit is known.",
)
PROPORTIONAL_HAZARDS = Rule(
    "proportional-hazards",
    "cox_rcs assumes that the effect of the predicted risk on the hazard is constant up to the "
    "horizon, but it changes with time (p = {p_value:.2g}): the curve may show miscalibration "
    "where there is none",
    "use the method 'conditional', which assumes no form of the hazard",
    "The assumption of the method cox_rcs does not hold.",
    thresholds={"p_value": 0.05},
)
FEW_AT_RISK = Rule(
    "few-at-risk",
    "only {least_at_risk} rows are at risk at the event at t = {time:.4g}: each neighbourhood "
    "holds a share of them, so one event moves its whole curve",
    "count time from a later origin, when more rows have entered",
    "Delayed entry leaves few rows at risk early.",
    thresholds={"rows": 50},
)
CURVE_ENDS_EARLY = Rule(
    "curve-ends-early",
    "{count} subjects are followed up beyond the last time of their predicted curve "
    "({last_time:g}); the curve is taken as flat from there, which lowers the expected events",
    "predict over a grid that reaches the last observed time, or read O/E at a horizon",
    "The model's predictions end before the follow-up does.",
)
CURVE_TOO_COARSE = Rule(
    "curve-too-coarse",
    "the predicted curves have too few times, or end too early, for O/E at the subjects' own "
    "times: reading them as steps or interpolating their hazard changes the expected events by "
    "{difference:.0%}",
    "predict over all observed times, or pass survival_at_own_time; O/E at a horizon is not "
    "affected",
    "Predictions at a few times do not say what is expected by each subject's own time.",
    (Severity.INFO,),
    thresholds={"difference": 0.1},
    command_action="predict over all observed times, or name the column of survival at each "
    "subject's own time (--own COLUMN); O/E at a horizon is not affected",
)
RULES = tuple(rule for rule in list(globals().values()) if isinstance(rule, Rule))
