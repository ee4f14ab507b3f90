"""The columnar `Dataset`, its readers, folds, scales and simulators.

Names load on first use: `cje.data.folds` must not pull in the readers (and with them polars).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cje._lazy import lazy_names

if TYPE_CHECKING:
    from cje.data.codes import Codes as Codes
    from cje.data.codes import Strings as Strings
    from cje.data.comparison_reader import read_comparisons as read_comparisons
    from cje.data.comparisons import Comparisons as Comparisons
    from cje.data.dataset import Dataset as Dataset
    from cje.data.folds import get_content_folds as get_content_folds
    from cje.data.folds import get_fold as get_fold
    from cje.data.folds import get_folds as get_folds
    from cje.data.judge_score import JudgeScore as JudgeScore
    from cje.data.judge_score import JudgeScores as JudgeScores
    from cje.data.raters import RaterLabels as RaterLabels
    from cje.data.reader import read as read
    from cje.data.sampler import PrecomputedSampler as PrecomputedSampler
    from cje.data.scale import Scale as Scale

_HOME = {
    "Codes": "codes",
    "Strings": "codes",
    "Comparisons": "comparisons",
    "Dataset": "dataset",
    "get_content_folds": "folds",
    "get_fold": "folds",
    "get_folds": "folds",
    "JudgeScore": "judge_score",
    "JudgeScores": "judge_score",
    "RaterLabels": "raters",
    "PrecomputedSampler": "sampler",
    "Scale": "scale",
    "read": "reader",
    "read_comparisons": "comparison_reader",
}

__all__ = sorted(_HOME)

__getattr__, __dir__ = lazy_names(__name__, _HOME, __all__)
