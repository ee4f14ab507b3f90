r"""From a judge's token log-probs, as a server sends them, to a distribution over verdicts.

A server lists the log-probs of the k likeliest tokens only. Tokens that spell one verdict ("good",
" Good") are added up; tokens that spell none are left out; a verdict that is not listed has at most
the probability of the least likely listed token, and at most an even share of the mass that is
missing from the list. It is given the smaller of the two, so that no verdict has probability 0 only
because the list was short. The row is then divided by its sum.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from cje.checks import is_number
from cje.classification._labels import text_of
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray

__all__ = ["VerdictDistribution", "verdict_distribution"]

_STRIPPED = " \t\n\"'*:.\u2581\u0120"  # quotes, marks, and the blanks of common vocabularies
_ROUNDING = 1e-3  # of log-probs summed in float16
_LEAST = 1e-12


class VerdictDistribution(NamedTuple):
    """Probabilities of the verdicts.

    Attributes
    ----------
    probability : array (n, K)
        Rows sum to one.
    listed : array (n,)
        Mass of the listed tokens that spell a verdict, before rows were divided by their sum.
    missing : array (n,)
        Mass that the list of tokens does not show.
    """

    probability: FloatArray
    listed: FloatArray
    missing: FloatArray


def verdict_distribution(
    token_logprobs: Sequence[Mapping[str, float]], verdicts: Sequence[Any]
) -> VerdictDistribution:
    """Distribution over `verdicts` from the listed log-probs of each response's verdict token.

    Parameters
    ----------
    token_logprobs : sequence of mappings token -> log-prob
        One mapping per response, as in `Completion.top` or `Verdict.token_logprobs`.
    verdicts : sequence
        The verdicts, in the order of the columns.

    Raises
    ------
    CJEError
        No token spells a verdict, a log-prob is not a number of at most 0, or their probabilities
        sum to more than one.

    Examples
    --------
    >>> listed = {"4": -0.2231, "5": -1.8971, " 4": -5.0, "The": -6.0}
    >>> verdict_distribution([listed], [1, 2, 3, 4, 5]).probability.round(3).tolist()
    [[0.003, 0.003, 0.003, 0.837, 0.156]]
    """
    spelled = {_spelling(text_of(verdict)): k for k, verdict in enumerate(verdicts)}
    if len(spelled) != len(verdicts) or len(spelled) < 2:
        raise CJEError("verdicts must be at least two that are spelled differently", value=verdicts)
    rows = [_row(entry, spelled, i) for i, entry in enumerate(token_logprobs)]
    if not rows:
        raise CJEError("there are no token log-probs", value=token_logprobs)
    table = np.array([row[0] for row in rows])
    return VerdictDistribution(
        table, np.array([row[1] for row in rows]), np.array([row[2] for row in rows])
    )


def _spelling(token: str) -> str:
    return token.strip(_STRIPPED).lower()


def _row(entry: Any, spelled: Mapping[str, int], row: int) -> tuple[list[float], float, float]:
    if not isinstance(entry, Mapping):
        raise CJEError("token log-probs must map tokens to log-probs", where=f"row {row}",
                       value=entry)  # fmt: skip
    found = [0.0] * len(spelled)
    mass, least = 0.0, 1.0
    for token, logprob in entry.items():
        if logprob == -math.inf:
            continue
        if not is_number(logprob) or logprob > _ROUNDING:
            raise CJEError("a log-prob must be a number of at most 0", where=f"row {row}",
                           value={token: logprob})  # fmt: skip
        p = math.exp(min(logprob, 0.0))
        mass, least = mass + p, min(least, p)
        k = spelled.get(_spelling(str(token)))
        if k is not None:
            found[k] += p
    if mass > 1.0 + _ROUNDING * max(len(entry), 1):
        raise CJEError("the tokens' probabilities sum to more than one", where=f"row {row}",
                       value=mass, hint="pass natural log-probs of one position")  # fmt: skip
    listed, missing = sum(found), max(1.0 - mass, 0.0)
    if listed <= 0.0:
        raise CJEError(
            "no listed token spells a verdict", where=f"row {row}", value=list(entry)[:5],
            hint=f"verdicts: {', '.join(spelled)}; ask the server for more top_logprobs",
        )  # fmt: skip
    absent = [k for k, p in enumerate(found) if p == 0.0]
    for k in absent:
        found[k] = max(min(least, missing / len(absent)), _LEAST)
    total = sum(found)
    return [p / total for p in found], listed, missing
