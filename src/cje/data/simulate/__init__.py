"""Data-generating processes whose truth is known exactly, for tests, benchmarks and the demo.

| function | what it makes |
|---|---|
| `monotone_judge`, `non_monotone_judge`, `mild_dip_judge` | one policy; E[Y|S] of that shape |
| `heteroscedastic_judge` | judge scores with a variance of their own, over- or under-stated |
| `policies_on_shared_prompts` | several policies answering the same prompts |
| `length_biased_judge` | a judge that rewards long answers, policies of different length |
| `skewed_outcomes` | outcomes concentrated near 0 or 1 |
| `logged_with_logprobs` | logged rows with log-probs; overlap and the shape of E[W|S] are
parameters |

Scores can be continuous or rounded to `levels`; labels are missing completely at random
(``labelling="mcar"``) or depending on the score (``"mar"``, propensities recorded).
"""

from __future__ import annotations

from cje.data.simulate.core import Simulation, true_curve
from cje.data.simulate.judges import (
    heteroscedastic_judge,
    mild_dip_judge,
    monotone_judge,
    non_monotone_judge,
)
from cje.data.simulate.logged import logged_with_logprobs
from cje.data.simulate.policies import (
    length_biased_judge,
    policies_on_shared_prompts,
    skewed_outcomes,
)

__all__ = [
    "Simulation",
    "heteroscedastic_judge",
    "length_biased_judge",
    "logged_with_logprobs",
    "mild_dip_judge",
    "monotone_judge",
    "non_monotone_judge",
    "policies_on_shared_prompts",
    "skewed_outcomes",
    "true_curve",
]
