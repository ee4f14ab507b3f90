"""Findings on logged data and importance weights."""

from __future__ import annotations

from cje.findings.finding import Rule, Severity

__all__ = ["RULES"]

_INFO, _WARN, _REFUSE = Severity.INFO, Severity.WARNING, Severity.REFUSE

_FRESH = (
    "draw fresh responses from this policy and use the direct method, or log more data from a "
    "policy closer to it"
)
LOW_ESS = Rule(
    "low-ess",
    "effective sample size {ess:.0f} of {n} logged rows ({ess_fraction:.1%})",
    _FRESH,
    "A few logged rows dominate the estimate. The refusal levels are where the intervals of the "
    "simulation study stop covering the truth, the warning level is where their width grows "
    "quickly.",
    (_REFUSE, _WARN),
    {"refuse_fraction": 0.10, "refuse_rows": 50.0, "warn_fraction": 0.30},
)
HEAVY_TAIL = Rule(
    "heavy-tail",
    "the heaviest weights have tail index {tail_index:.2f} (below 2 the variance is not finite); "
    "the top 5% of rows carry {top5_share:.0%} of the weight",
    _FRESH,
    "The variance of the weights may not be finite, so no standard error describes it. A warning "
    "for estimators that use the weights through their mean given the score only.",
    (_REFUSE, _WARN),
    {"refuse": 1.5, "warn": 2.0},
)
MEAN_WEIGHT = Rule(
    "mean-weight",
    "unnormalised weights average {mean_weight:.3g}, not 1 (standard error {mean_weight_se:.3g})",
    "check that logging and target log-probs were scored by the same engine, template and tokens; "
    "state known noise of repeated scorings as logprob_noise; without right weights only fresh "
    "draws with label_weight 'projected' are left, which assumes that the judge misses nothing",
    "Importance weights average 1 where the log-probs are right. Refused where W weights rows or "
    "labels, a warning where only m(S) does. The limit is in standard errors, corrected for "
    "skewness: honest logs exceed it about once in a thousand. A mean within 1% of one is "
    "never reported.",
    (_WARN, _REFUSE),
    {"standard_errors": 3.29, "immaterial": 0.01},
)
SUPPORT_TRUNCATED = Rule(
    "support-truncated",
    "unnormalised weights average {mean_weight:.3g} (standard error {mean_weight_se:.3g}): about "
    "{missing_mass:.0%} of the responses of this policy could not be logged",
    "check whether the logging policy sampled with top-p, top-k, a filter or a length limit that "
    "its log-probs do not show, and that both log-probs are of the same tokens; generate responses "
    "with the target policy for what was never logged",
    "The mean weight is the share of the target that the logging policy can produce. The other "
    "responses have no weight, whatever the effective sample size. Severity and limits as for "
    "mean-weight.",
    (_WARN, _REFUSE),
)
WEIGHTS_MISS_DRAWS = Rule(
    "weights-miss-draws",
    "the weighted log and the fresh draws of this policy differ in {feature} by {gap:+.2f} "
    "standard deviations (adjusted p {p_adjusted:.1g}): the weights do not turn the log into this "
    "policy",
    "check the log-probs (engine, template, tokens, truncation); without right weights only "
    "label_weight 'projected' is left, which assumes that the judge misses nothing, or labels on "
    "the "
    "fresh draws and the direct method",
    "Right weights give the log the target's distribution of every feature. Refused where the "
    "difference is highly significant and large enough to move the value by a quarter of its "
    "standard error if what the judge misses followed that feature; otherwise a warning.",
    (_WARN, _REFUSE),
    {"p_value": 0.05, "refuse_p_value": 0.001, "standard_errors": 0.25},
)
CLIPPED_RATIOS = Rule(
    "clipped-ratios",
    "{n_clipped} of {n} log-ratios were beyond the hard clip, {n_above} of them above it",
    "check that both log-probs are of the same response, template and tokens: such ratios usually "
    "mean truncated or mismatched responses",
    "Ratios cut from above make the largest weights wrong, so the value is refused.",
    (_WARN, _REFUSE),
)
MISSING_LOGPROBS = Rule(
    "missing-logprobs",
    "{n_missing:,} rows have no log-probs",
    "score those rows under the target policy",
    "Off-policy estimators need both log-probs of every row.",
    (_REFUSE,),
)
IDENTICAL_WEIGHTS = Rule(
    "identical-weights",
    "all importance weights are identical (log-ratio {log_ratio:.6g} on all {n} rows), so the "
    "value would be that of the logged version under another name",
    "score the logged responses under the target policy (teacher forcing: the log-probability of "
    "the logged response, not of a new one) and put the result in target_policy_logprobs; if the "
    "policies differ in temperature or top-p only, the scores leave that out: compare them by "
    "fresh draws; for an A/A check pass same_as_logging with the policy's name",
    "Two different policies never give every response the same likelihood ratio: the log-probs "
    "are a default value, or the scoring step was skipped.",
    (_REFUSE,),
    {"spread": 1e-9},
)
WEIGHTS_BEYOND_CLIP = Rule(
    "weights-beyond-clip",
    "every log-ratio lies beyond the clip (they run from {low:.6g} to {high:.6g}, the clip is at "
    "{clip:g}), so no weight carries information",
    "check that both log-probs are of the same response, template and tokens, and that both are "
    "sums over tokens in natural logarithms",
    "The two log-probs are not of the same response, or not in the same units.",
    (_REFUSE,),
)
LOW_LABEL_ESS = Rule(
    "low-label-ess",
    "{n_labels} labels (effective {label_ess:.1f}): too few to correct the estimate",
    "label more logged rows, preferring those with large weights (record their propensities), or "
    "label fresh draws of this policy and use the direct method",
    "Weighted to the policy, the labels count as very few.",
    (_REFUSE,),
    {"refuse": 15.0},
)
LABELS_MISS_TARGET = Rule(
    "labels-miss-target",
    "labelled rows carry {ratio:.2f} times the weight of this version that rows chosen as stated "
    "would carry (p = {p_value:.1g}): the labels represent another kind of response",
    "record the probability with which each row was chosen as label_propensity (use_mar "
    "estimates it from the score), or label a random slice",
    "The labels represent less than half, or more than twice, the responses of this policy: "
    "refused; a smaller significant gap is a warning.",
    (_WARN, _REFUSE),
    {"p_value": 1e-3, "refuse_below": 0.5, "refuse_above": 2.0},
)
CALIBRATION_DOES_NOT_CARRY_OVER = Rule(
    "calibration-does-not-carry-over",
    "labels weighted to this version differ from the calibration by {gap:+.3f} more than at equal "
    "scores (adjusted p {p_adjusted:.1g}): the judge misses something that distinguishes it",
    "weight labels by W (label_weight 'raw', the default), or improve the judge",
    "The relation of label to score is different for the target. Information where labels are "
    "weighted by W, which corrects for it; with label_weight 'projected' refused where the gap is "
    "both highly significant and large beside the value's standard error, otherwise a warning.",
    (_WARN, _REFUSE, _INFO),
    {"p_value": 0.05, "refuse_p_value": 0.001, "standard_errors": 0.25},
)
LABEL_UNCERTAINTY_LEFT_OUT = Rule(
    "label-uncertainty-left-out",
    "oua_jackknife is off: intervals treat the calibration as known",
    "leave oua_jackknife on for any number that is reported",
    "Intervals are too short by the uncertainty of the calibration.",
)
FRESH_LABELS_UNUSED = Rule(
    "fresh-labels-unused",
    "the {n_labels} labels on fresh draws are not used by this estimate",
    "the direct estimator uses them, and checks the calibration against them",
    "Labels that this estimator does not use.",
    (_INFO,),
)
OTHER_PROMPTS = Rule(
    "other-prompts",
    "the fresh draws answer none of the logged prompts: values are over the fresh prompts, and "
    "logged rows are assumed to come from the same population",
    "check that prompt_id means the same in both, or draw on the logged prompts",
    "Logged data and fresh draws share no prompt.",
    (_INFO,),
)
JUDGE_TOO_SURE = Rule(
    "judge-too-sure",
    "{verdict}",
    "trust these intervals, not the judge's own variances",
    "The judge's stated variances are smaller than its errors.",
    (_INFO,),
)
ESS_NOT_REACHED = Rule(
    "ess-not-reached",
    "no shrinkage brings the effective sample size to {target:.0%} of the rows",
    "use fresh draws: the judge's variances do not single out the heavy rows",
    "Shrinkage by the judge's variance cannot reach the requested effective sample size.",
)
SHRINKAGE_BIAS = Rule(
    "shrinkage-bias",
    "shrinkage moved the value by {bias:+.4f}, more than half its standard error {se:.4f}: the "
    "interval does not include that",
    "use shrinkage_method 'optimal', or none",
    "Shrinkage trades variance for a bias that the interval does not cover.",
    thresholds={"standard_errors": 0.5},
)
RULES = tuple(rule for rule in list(globals().values()) if isinstance(rule, Rule))
