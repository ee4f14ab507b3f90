"""Judges: a rating with a variance, from a model, a scorer or a seeded stand-in; and oracles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cje._lazy import lazy_names
from cje.judges.base import Judge, check_samples
from cje.judges.config import JudgeConfig
from cje.judges.label_slice import LabelSlice, draw_label_slice
from cje.judges.offline import DeterministicJudge, OfflineJudge, lexical_quality
from cje.judges.oracle import CallableOracle, CSVOracle, JoinReport, ModelOracle, OracleSource
from cje.judges.parsing import Parsed, parse_verdict
from cje.judges.template import JudgeTemplate, load_template, template_names
from cje.judges.verdict import JudgedScore, VarianceMethod, Verdict, combine_verdicts
from cje.models import Client

if TYPE_CHECKING:
    from cje.judges.api import APIJudge as APIJudge

__all__ = [
    "APIJudge",
    "CSVOracle",
    "CallableOracle",
    "DeterministicJudge",
    "JoinReport",
    "Judge",
    "JudgeConfig",
    "JudgeTemplate",
    "JudgedScore",
    "LabelSlice",
    "ModelOracle",
    "OfflineJudge",
    "OracleSource",
    "Parsed",
    "VarianceMethod",
    "Verdict",
    "check_samples",
    "combine_verdicts",
    "draw_label_slice",
    "lexical_quality",
    "load_template",
    "make_judge",
    "parse_verdict",
    "template_names",
]
_HOME = {"APIJudge": "api"}

__getattr__, __dir__ = lazy_names(__name__, _HOME, __all__)


def make_judge(config: JudgeConfig | Mapping[str, Any], *, client: Client | None = None) -> Judge:
    """The judge that a config describes.

    Parameters
    ----------
    config : JudgeConfig or mapping
    client : Client, optional
        A client to use in place of the configured server (`APIJudge`).
    """
    parsed = JudgeConfig.parse(config)
    if parsed.provider != "offline":
        from cje.judges.api import APIJudge

        return APIJudge(parsed, client=client)
    return OfflineJudge(
        name=parsed.name,
        bias=parsed.bias,
        noise=parsed.noise,
        n_repeats=parsed.repeats,
        variance=parsed.variance,
        seed=parsed.seed,
    )
