"""Findings on labels, the judge and its calibration."""

from __future__ import annotations

from cje.findings.finding import Rule, Severity

__all__ = ["RULES"]

_INFO, _WARN, _REFUSE = Severity.INFO, Severity.WARNING, Severity.REFUSE

NO_LABELS = Rule(
    "no-labels",
    "no row has a label; only the judge's own scores can be averaged",
    "label a random slice of the responses of each policy; cje plan says how many",
    "Without labels the judge cannot be calibrated: values are means of its scores.",
)
UNCALIBRATED = Rule(
    "uncalibrated",
    "these are means of the judge's scores, not of labels: a biased judge shifts them by an "
    "unknown amount that the intervals do not cover",
    "label a random slice of the responses and use estimator='direct'",
    "The estimate is the judge's mean score; no label corrects it.",
    (_REFUSE,),
    command_action="label a random slice of the responses and use --estimator direct",
)
FEW_LABELS = Rule(
    "few-labels",
    "only {have} of its own; the interval relies on normal theory",
    "label at least {enough:.0f} randomly chosen responses",
    "Intervals from few labels rest on the normal approximation.",
    thresholds={"enough": 20},
)
SKEWED_LABELS = Rule(
    "skewed-labels",
    "the labels' errors are skewed (skewness {skewness:+.1f}): {have} are too few for normal "
    "theory, and the interval may miss the value on the side of the long tail",
    "label at least {enough:.0f} randomly chosen responses, or analyze a transformed label",
    "A few large labels determine much of the mean, and a sample without them gives too short an "
    "interval. Cochran's rule asks for at least 25 times the squared skewness in labels: the mean "
    "then has a skewness of at most 0.2.",
    thresholds={"of_the_mean": 0.2},
)
BORROWED_CALIBRATION = Rule(
    "borrowed-calibration",
    "{own} of its own: {rests}",
    "label at least {enough:.0f} randomly chosen responses of this policy",
    "The policy has too few labels to correct the judge's errors on it.",
)
IDENTICAL_LABELS = Rule(
    "identical-labels",
    "{which} are equal, so they show no spread; the interval uses the largest deviation that is "
    "compatible with them",
    "label more responses",
    "Labels that are all equal do not show how much labels vary.",
)
COPIED_LABELS = Rule(
    "copied-labels",
    "{n_copies} labels of the calibration data repeat labels of the fresh draws (the same prompts, "
    "scores and labels); each counts once",
    "no action needed; omit the calibration file if it adds no other labels",
    "The same labels were passed twice.",
    (_INFO,),
)
LABELS_NOT_RANDOM = Rule(
    "labels-not-random",
    "labelled rows have judge scores {gap:+.3f} away from the mean of all {n_rows:,} rows "
    "(p = {p_value:.1g}): they do not look chosen {how}, and the estimate assumes that they were",
    "record the probability with which each row was chosen as label_propensity (use_mar "
    "estimates it from the score, for estimators from logged data), or label a random slice",
    "Labels describe all rows only if they were chosen at random or with known probabilities.",
    thresholds={"p_value": 1e-3, "labels_needed": 10},
)
LABELS_MODELLED = Rule(
    "labels-modelled",
    "which of its responses are labelled depends on {factors}: the labels are weighted by a model "
    "of that dependence, and the value is right only if nothing else decided which rows were "
    "labelled",
    "record the probability with which each row was chosen as label_propensity, or label a random "
    "slice",
    "The choice of labels depends on something known for every row; a model of that choice "
    "corrects the value. Even a weak dependence shifts values, so the model is used at a larger "
    "p-value than a refusal.",
    thresholds={"p_value": 0.02},
)
LABELS_SELECTED = Rule(
    "labels-selected",
    "which of its responses are labelled depends on {factors}, and weights cannot correct that: "
    "{reason}",
    "label a random slice of its responses, or record the probability with which each row was "
    "chosen as label_propensity",
    "The labels were selected, and one kind of response has almost none: no weights on the others "
    "can represent it.",
    (_REFUSE,),
    {"p_value": 1e-3, "labels_in_a_fifth": 3, "effective_labels": 20},
)
LABELS_DEPEND_ON = Rule(
    "labels-depend-on",
    "which rows are labelled depends on {factor} (effect {effect:+.2f}, adjusted p "
    "{p_adjusted:.1g})",
    "record the probability with which each row was chosen as label_propensity, or label a random "
    "slice; otherwise the estimates describe the kind of row that was labelled",
    "Labelling follows a column of the data other than the judge score.",
    thresholds={"p_value": 1e-3, "effect": 0.02},
)
FIRST_ROWS_LABELLED = Rule(
    "first-rows-labelled",
    "its labelled rows lie near the {where} of the file (mean position {position:.0%}, "
    "p = {p_value:.1g}), and no column says when a response was made: if the file is in the order "
    "of time, the labels describe only that part of it",
    "add the time of each response as a column (created_at), or label a random slice",
    "The labels may describe one part of a period. The order of a file may be arbitrary, so no "
    "number depends on it.",
    thresholds={"p_value": 1e-6, "position": 0.25},
)
CLUSTER_NOT_USED = Rule(
    "cluster-not-used",
    "labels of one {column} deviate from the calibration in the same direction (intraclass "
    "correlation {icc:.2f}, p = {p_value:.1g}), but the intervals treat prompts as independent: "
    "the part of the interval that comes from labels should be about {factor:.2f} times as wide",
    "name the column as the cluster: fields={{'cluster': '{column}'}}",
    "A conversation, a user or a document holds several prompts whose labels are not independent.",
    thresholds={"p_value": 0.01, "factor": 1.05},
    command_action="name the column as the cluster: --field cluster={column}",
)
IMPOSSIBLE_PROPENSITIES = Rule(
    "impossible-propensities",
    "{count} labelled rows have a label_propensity of {limit:.1g} or less; that many among "
    "{n_rows:,} rows are almost impossible (p = {p_value:.1g})",
    "correct label_propensity: the probability, between 0 and 1, with which each row was chosen",
    "The recorded propensities contradict the labels, so weights made from them mean nothing.",
    (_REFUSE,),
    {"p_value": 1e-3},
)
PROPENSITIES_TOO_UNEQUAL = Rule(
    "propensities-too-unequal",
    "the labelling propensities run from {least:.2g} to {most:.2g}: the rows with the smallest "
    "ones dominate the value; {n_labels} labels estimate its variance only as well as "
    "{effective:.1f} labels of equal weight",
    "label more of the rows with the smallest propensities, or remove those rows and report the "
    "value of the others",
    "Few labels carry most of the weight: the value depends on whether one of them was drawn, and "
    "the interval cannot show that.",
    (_REFUSE, _WARN),
    {"refuse": 8.0, "warn": 30.0, "label_share": 0.5},
)
STRATUM_HARDLY_LABELLED = Rule(
    "stratum-hardly-labelled",
    "{n_rows:,} rows ({share:.1%}) have labelling propensities of {least:.2g} to {most:.2g}, so "
    "only {expected:.1f} of them are expected to be labelled",
    "label at least ten rows of that stratum, or remove it and report the value of the other rows",
    "A stratum of rows may have no label at all: value and interval then describe the other rows "
    "only.",
    (_REFUSE,),
    {"expected_labels": 4.0, "share": 0.005, "factor": 2.0},
)
PROPENSITIES_MISS_ROWS = Rule(
    "propensities-miss-rows",
    "the number of labels of {part} is {ratio:.2f} times what label_propensity implies "
    "(p = {p_value:.1g})",
    "check label_propensity, and whether rows of some kind were skipped or had no chance of a "
    "label; give the propensity of unlabelled rows too",
    "Labels and recorded propensities disagree. Refused where kinds of rows are misrepresented by "
    "more than the limit on the ratio; an equal error on all rows cancels and is a warning.",
    (_WARN, _REFUSE),
    {"p_value": 1e-3, "refuse_p_value": 1e-4, "ratio": 0.1, "labels_needed": 10},
)
PROPENSITIES_PARTLY_KNOWN = Rule(
    "propensities-partly-known",
    "{n_unknown:,} unlabelled rows have no label_propensity: rows with little or no chance of a "
    "label cannot be seen",
    "record label_propensity on every row that could have been labelled",
    "The check of the propensities uses labelled rows only. Labels from cje label do not get this "
    "finding: its designs give every row a chance.",
)
LOW_CALIBRATION_R2 = Rule(
    "low-calibration-r2",
    "the judge explains little of the labels: {kind} R2 {r2:.2f} on {n_labels} labels",
    "improve the judge's prompt or model, try another judge, label more rows, or "
    "check whether the labels themselves are noisy; the intervals account for it by being wider",
    "A judge that hardly predicts the labels saves few of them.",
    thresholds={"r2": 0.3},
)
LOW_ORACLE_COVERAGE = Rule(
    "low-oracle-coverage",
    "only {oracle_coverage:.1%} of the rows ({n_oracle}) have an oracle label",
    "collect more labels, consider the uncalibrated judge score, or bootstrap the calibration to "
    "see how uncertain it is",
    "The calibration rests on a small share of the rows.",
    thresholds={"oracle_coverage": 0.05},
)
CALIBRATION_RESIDUAL = Rule(
    "calibration-residual",
    "in the {region} third of judge scores the labels differ from the calibration by {mean:+.3f} "
    "({n} labels)",
    "use the two-stage calibration (calibration_mode 'two_stage'), or add a covariate such as the "
    "response length",
    "The calibration is off in one region of the scores.",
    thresholds={"p_value": 0.01, "residual": 0.02},
)
AUTOMATIC_COVARIATES = Rule(
    "automatic-covariates",
    "the prediction of the labels uses {which}{rest}",
    "no action needed",
    "The covariates that the automatic choice tried and uses: features that lower the squared "
    "error of labels that the prediction has not seen by more than a standard error.",
    (_INFO,),
)
JUDGE_BIAS = Rule(
    "judge-bias",
    "the calibrated score is too {direction} {where} (calibrated score minus "
    "label: {effect:+.3f}{each}, adjusted p {p_adjusted:.1g})",
    "labels of each policy correct it{or_covariate}",
    "The judge's errors depend on something other than its score.",
    thresholds={"p_value": 0.01, "effect": 0.01},
)
TRANSPORT_FAIL = Rule(
    "transport-fail",
    "its own {n_labels} labels differ from a calibration learnt from the other labels by "
    "{mean:+.3f} [{low:+.3f}, {high:+.3f}] on average, more than the margin of {margin:.3g}"
    "{consequence}",
    "use this policy's own labels (the direct estimator does, where the data have them), and do "
    "not evaluate it by labels of other policies",
    "The judge's errors on this policy differ from its errors on the others. Refused where the "
    "value rests on the other labels, a warning where a few labels of its own correct it, "
    "information where it has enough.",
    (_REFUSE, _WARN, _INFO),
    {"labels_needed": 3},
)
TRANSPORT_INCONCLUSIVE = Rule(
    "transport-inconclusive",
    "its own {n_labels} labels differ from the calibration by {mean:+.3f} "
    "[{low:+.3f}, {high:+.3f}] on average; {reason}",
    "label more randomly chosen responses of it (plan_probe says how many)",
    "Too few labels of the policy to check the calibration it borrows.",
    thresholds={"clusters_for_pass": 20},
    command_action="label more randomly chosen responses of it (cje plan --transport says how "
    "many)",
)
TRANSPORT_NOT_GRADED = Rule(
    "transport-not-graded",
    "its own {n_labels} labels differ from the calibration that its value rests on by {mean:+.3f} "
    "[{low:+.3f}, {high:+.3f}] on average; no margin says whether that matters",
    "declare the largest difference that does not matter, on the label's scale: transport_margin",
    "An audit is graded against a margin that is declared beforehand; there is no default.",
    command_action="declare the largest difference that does not matter, on the label's scale: "
    "--transport-margin",
)
TRANSPORT_NOT_CHECKED = Rule(
    "transport-not-checked",
    "its value rests on labels of other policies, and no label of its own checks that",
    "label about 50 randomly chosen responses of this policy (a probe slice)",
    "No label checks the borrowed calibration.",
)
SCORES_OUTSIDE_LABELS = Rule(
    "scores-outside-labels",
    "{outside:.0%} of its judge scores lie outside the range of the labelled scores; the "
    "calibration is extrapolated there",
    "label responses of this policy, choosing rows from the scores that lack labels",
    "The calibration has not seen scores of this kind.",
    (_REFUSE,),
    {"outside": 0.30},
)
SCORES_THINLY_LABELLED = Rule(
    "scores-thinly-labelled",
    "{thin:.0%} of its judge scores lie where fewer than {min_labels} labels were collected",
    "label responses of this policy, choosing rows from the scores that lack labels",
    "The calibration rests on few labels where this policy's scores are.",
    thresholds={"thin": 0.05},
)
CONSTANT_JUDGE = Rule(
    "constant-judge",
    "the judge gave every row the same score, so its scores cannot distinguish responses",
    "fix the judge's prompt or the parsing of its answers",
    "A constant score carries no information.",
    (_REFUSE, _WARN),
)
MISSING_SCORES = Rule(
    "missing-scores",
    "{n_missing:,} rows have no judge score",
    "score them, or select the rows that have a score",
    "Estimators need a score on every row.",
    (_WARN, _REFUSE),
)
ONE_ROW = Rule(
    "one-row",
    "it has only one row",
    "add rows, or check the policy column",
    "One row has no spread; often a wrong policy column.",
    (_REFUSE,),
)
LOW_RATER_AGREEMENT = Rule(
    "low-rater-agreement",
    "raters agree little: Krippendorff's alpha {alpha:.2f} over {n_responses} responses",
    "clarify the labelling guide or use more raters per response; the estimates describe the "
    "raters' mean, whatever it measures",
    "The labels themselves are noisy.",
    thresholds={"alpha": 0.4},
)
JUDGE_CARD_STALE = Rule(
    "judge-card-stale",
    "the judge card was made for another judge: the {changed}",
    "make the card again with labels of responses that this judge scored: judge_report",
    "A judge card holds for one model, template and rubric.",
    command_action="make the card again with labels of responses that this judge scored (cje "
    "judge DATA --save FILE)",
)
DIFFERENT_PROMPTS = Rule(
    "different-prompts",
    "the policies share {shared} prompts of {least} to {most} each: a difference between them "
    "mixes policy and prompts, and pairing gains nothing",
    "run all policies on one set of prompts",
    "Policies were evaluated on different prompts.",
    (_INFO,),
    {"shared_share": 0.5},
)
SUBGROUP_LEFT_OUT = Rule(
    "subgroup-left-out",
    "this level has no value{where}: {reason}",
    "{hint}",
    "A level of a subgroup column could not be estimated.",
)
NO_LOOK_YET = Rule(
    "no-look-yet",
    "too few labels, or too few of the rarer kind, for a first look at {closed}",
    "collect more labels: the first look is at label {first_look}, or later while few labels "
    "decide the result",
    "Anytime intervals open at a fixed number of labels.",
)
LABEL_SKIPS = Rule(
    "label-skips",
    "{message}",
    "inspect the skipped rows (cje labels export) and label them, or report the bounds",
    "Rows that raters skipped have no label; a warning where policies are skipped unequally.",
    (_WARN, _INFO),
    thresholds={"differ": 0.05},
)
SCALE_TOO_WIDE = Rule(
    "scale-too-wide",
    "{column} is declared on {scale}, but its values run from {least:g} to {most:g}",
    "check the declared scale: intervals and the fit of the judge rest on it",
    "The declared scale is much wider than the values.",
)
DOUBTFUL_SCALE = Rule(
    "doubtful-scale",
    "{problem}; examined here on {low:g} to {high:g}; do not analyze the data before this is "
    "corrected",
    "correct the values, or declare the scale",
    "Some values are not on the scale of the others: typing errors, or several scales in one "
    "column.",
)
RULES = tuple(rule for rule in list(globals().values()) if isinstance(rule, Rule))
