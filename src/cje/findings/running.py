"""Findings of a pipeline run: its rows, its servers and its log-probs."""

from __future__ import annotations

from cje.findings.finding import Rule, Severity

__all__ = ["RULES"]

_INFO, _WARN, _REFUSE = Severity.INFO, Severity.WARNING, Severity.REFUSE

ERROR_ROWS = Rule(
    "error-rows",
    "{n_errors} of {n_rows} rows have an error and are left out",
    "run the same command again to retry them; `cje status` lists the reasons",
    "Calls failed after all retries; the estimates are over the other rows.",
)
TRIAL = Rule(
    "trial",
    "{estimator}: {reason}",
    "run without limit",
    "A trial on the first contexts has too few rows for this estimator.",
    (_INFO,),
    command_action="run without --limit",
)
SERVER = Rule(
    "server",
    "{check}: {warning}",
    "see docs/howto/score_responses.md",
    "A server works, with the stated limitation.",
)
LABEL_JOIN = Rule(
    "label-join",
    "{report}",
    "check that the label file's ids are the data file's ids",
    "Labels of the label file match no row (a warning), or several labels of a row were averaged.",
    (_WARN, _INFO),
)
SELF_RATIO = Rule(
    "self-ratio",
    "the logging policy scored against itself gives a mean absolute log-ratio of "
    "{mean_abs_log_ratio:.3g} and an effective sample size of {ess_share:.0%} of {n} rows; both "
    "scores should agree",
    "check that logging and target are scored by the same engine, template, EOS rule and "
    "temperature",
    "The same policy, scored twice, must give weights near 1.",
    (_REFUSE,),
    {"mean_shift": 0.1, "ess_share": 0.9},
)
GENERATED_VS_RESCORED = Rule(
    "generated-vs-rescored",
    "log-probs reported while generating and while rescoring differ by more than {per_token:.3g} "
    "per token on {share_over:.0%} of {n} rows (median {median_gap_per_token:.3g} per token)",
    "check the prompt template, EOS rule, temperature and tokenisation: they differ between the "
    "two calls",
    "The server does not score the text that it generated.",
    (_WARN, _REFUSE),
    {"per_token": 0.05, "share": 0.05, "refuse_share": 0.5},
)
REPLICATE_NOISE = Rule(
    "replicate-noise",
    "scoring the same response again moves its log-prob by {sd:.3g} (standard deviation): weights "
    "carry a spurious factor of about {factor:.3g}",
    "pin the server's version and precision, switch off batching-dependent kernels, or average "
    "repeats",
    "Numerical noise of the server enters every weight.",
    (_WARN, _REFUSE),
    {"sd": 0.2, "refuse_sd": 1.0},
)
SCORING_NOISE = Rule(
    "scoring-noise",
    "scoring the same responses in another batch moves a log-ratio by {noise:.3g} (standard "
    "deviation), which is {share:.0%} of the log-ratios' own {spread:.3g}; plain importance "
    "weights are too large by a factor of about {factor:.4g}",
    "score with batch_invariant: true or dtype: float32; self-normalised estimators cancel the "
    "factor but keep the noise",
    "Numerical noise is not small compared with the difference between the policies.",
    (_WARN, _REFUSE),
    {"share": 0.1, "refuse_share": 0.5},
)
KNOWN_NOISE = Rule(
    "known-noise",
    "weights are divided by {factor:.4g}: {n} responses scored twice differ by {sd:.3g} (standard "
    "deviation of one log-prob), which makes weights too large by that factor on average",
    "set target_policy.replicates higher to measure it more precisely",
    "The run passes the noise that it measured to the estimators.",
    (_INFO,),
    {"factor": 0.001},
)
INSIDE_TOKEN = Rule(
    "inside-token",
    "on {rows} of {n} rows one token holds the end of the prompt and the start of the response; "
    "these are scored from that token's start, under every policy",
    "end the template with a character the tokeniser does not merge, log token ids, or set "
    "boundary: refuse",
    "The boundary between prompt and response lies inside a token.",
)
CONTROL_TEXT = Rule(
    "control-text",
    "{rows} of {n} {what} spell a control token (such as {first}), which a server reads as that "
    "token: the policies see a different conversation from the one in the text",
    "remove such text from the prompts, or escape it; logged token ids and llama-server score a "
    "response with such text as it was written",
    "Text like <|im_end|> inside a prompt ends a turn too early.",
)
RULES = tuple(rule for rule in list(globals().values()) if isinstance(rule, Rule))
