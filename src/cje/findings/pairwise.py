"""Findings on side-by-side comparisons."""

from __future__ import annotations

from cje.findings.finding import Rule, Severity

__all__ = ["RULES"]

_INFO, _WARN, _REFUSE = Severity.INFO, Severity.WARNING, Severity.REFUSE

NO_HUMAN_VERDICTS = Rule(
    "no-human-verdicts",
    "no comparison has a human verdict: these are the judge's preferences, and its bias shifts "
    "them by an unknown amount that the intervals do not cover",
    "have people judge a random slice of the comparisons, and analyze again",
    "The win rates are the judge's; no human verdict corrects them.",
    (_REFUSE,),
    command_action="have people judge a random slice of the comparisons (cje label --pairs), and"
    " analyze again",
)
FEW_HUMAN_VERDICTS = Rule(
    "few-human-verdicts",
    "its comparisons have only {n_labels} human verdicts, on {n_prompts} prompts",
    "have people judge comparisons of this version on at least {enough:.0f} randomly chosen "
    "prompts",
    "Too few human verdicts to correct the judge (refused), or few enough that the interval rests "
    "on the normal approximation (warning).",
    (_REFUSE, _WARN),
    {"refuse": 8, "enough": 20},
)
POSITION_CONFOUNDED = Rule(
    "position-confounded",
    "{first} was shown first in all {n} comparisons that {who} judged, so the advantage of being "
    "shown first is part of the win rate",
    "show each pair in random order, or in both orders",
    "The position bias cannot be distinguished from the difference between the versions.",
)
POSITION_BIAS = Rule(
    "position-bias",
    "being shown first changes the win rate by {bias:+.1%} where {who} decides (95% interval "
    "{low:+.1%} to {high:+.1%}, from {source}); this is removed from the win rates",
    "no action needed",
    "Being shown first changes the verdict.",
    (_INFO,),
    {"p_value": 0.05},
)
DIFFERENT_OPPONENTS = Rule(
    "different-opponents",
    "{missing} of {pairs} pairs of versions were never compared, so win rates are against "
    "different opponents",
    "compare the missing pairs, or read the ranking, which accounts for the opponents",
    "A win rate against weak opponents is not comparable with one against strong opponents.",
)
NO_RANKING = Rule(
    "no-ranking",
    "there is no ranking: {reason}",
    "add comparisons, with human verdicts, that connect the versions",
    "The Bradley-Terry strengths have no finite or no unique value.",
)
RULES = tuple(rule for rule in list(globals().values()) if isinstance(rule, Rule))
