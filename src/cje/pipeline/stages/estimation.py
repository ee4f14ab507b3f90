"""Stage 7: canaries, then the estimators, then the files of the result."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cje.data import Dataset
from cje.errors import CJEError
from cje.estimators import EstimationResult
from cje.estimators.offpolicy.rewards import RewardModels
from cje.findings import Finding, Severity
from cje.findings.labels import NO_LABELS
from cje.findings.running import ERROR_ROWS, TRIAL
from cje.judges import JudgeConfig
from cje.kernels.weights import effective_sample_size
from cje.pipeline.chunks import RowStream
from cje.pipeline.config import PipelineConfig
from cje.pipeline.stages.columns import fresh_dataset, logged_dataset
from cje.pipeline.stages.estimators import configured_estimators, same_as_logging
from cje.pipeline.stages.judge_card import with_judge_card
from cje.pipeline.stages.noise import measured_noise, scored_twice, with_noise
from cje.policies import (
    PolicyConfig,
    generated_vs_rescored_canary,
    identical_weights_canary,
    inside_token_canary,
    replicate_noise_canary,
    scoring_noise_canary,
    self_ratio_canary,
)

__all__ = ["PipelineResult", "check_canaries", "describe_run", "estimate", "weight_table"]


@dataclass(frozen=True)
class PipelineResult:
    """The result of a run.

    Attributes
    ----------
    results : dict
        `EstimationResult` by the estimator's name, in the configured order.
    weights : list of dict
        One row per target: raw importance weights' mean, maximum, effective sample size.
    findings : tuple of Finding
        From calibration and canaries; each result also has its own.
    n_rows, n_errors : int
        Rows in the run, and rows left out because they carry an error.
    setup : mapping
        The models that answered, judged and labelled, as text for the report.
    data_files : mapping
        The judged rows of a direct run as a file, for `cje analyze` and `cje label`.
    """

    results: dict[str, EstimationResult]
    weights: list[dict[str, Any]]
    findings: tuple[Finding, ...]
    n_rows: int
    n_errors: int
    setup: Mapping[str, str] = field(default_factory=dict)
    data_files: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    @property
    def first(self) -> EstimationResult:
        """The result of the first configured estimator."""
        return next(iter(self.results.values()))

    def files(self) -> dict[str, bytes]:
        """The result as files: one JSON per estimator, the weights, the findings, a summary."""
        made = {f"{name}.json": _json(r.to_json()) for name, r in self.results.items()}
        made |= self.data_files
        made["weights.json"] = _json(self.weights)
        made["findings.json"] = _json([finding.to_dict() for finding in self.findings])
        made["summary.txt"] = (self.summary() + "\n").encode()
        if self.results:
            made["report.html"] = self.report().encode()
        return made

    def report(self, truth: Mapping[str, float] | None = None) -> str:
        """The report of the first estimator, with the estimates of the others."""
        from cje.results.report_parts import make_report, others_part

        known = {"truth": None if truth is None else dict(truth), "config": dict(self.setup)}
        first = self.first.with_(findings=self.findings, metadata=known)
        others = others_part(self.results) if len(self.results) > 1 else ()
        return make_report(first, extra=others).to_html()

    def summary(self) -> str:
        """The whole result as plain text."""
        lines = [f"{self.n_rows} rows, {self.n_errors} left out because of errors", ""]
        lines += [
            f"{row['policy']}: weights mean {row['mean']:.3f}, max {row['max']:.3g}, "
            f"ESS {100 * row['ess_share']:.1f}% of {row['n']}"
            for row in self.weights
        ]
        lines += [str(finding) for finding in self.findings]
        for name, result in self.results.items():
            lines += ["", f"== {name} ==", result.summary()]
        return "\n".join(lines)


def estimate(
    rows: RowStream,
    config: PipelineConfig,
    findings: Sequence[Finding] = (),
    fresh: Mapping[str, RowStream] | None = None,
    models: RewardModels | None = None,
) -> PipelineResult:
    """Run the configured estimators with the reward models of the calibration stage.

    `fresh` holds the targets' fresh draws. Without `models` (a trial whose labels are too few to
    calibrate on) each estimator says why it cannot answer.
    """
    data = logged_dataset(rows, config)
    found = [*findings, *check_canaries(rows, data, config)]
    if config.oracle_config is None:
        found.append(NO_LABELS.finding())
    n_errors = len(rows) - len(data)
    if n_errors:
        found.append(ERROR_ROWS.finding(n_errors=n_errors, n_rows=len(rows)))
    draws = None if fresh is None else fresh_dataset(fresh, config)
    results: dict[str, EstimationResult] = {}
    built = configured_estimators(data, draws, config, noise=measured_noise(rows))
    n_pairs = len(scored_twice(rows))
    for name, estimator in built.items():
        try:
            answer = estimator.fit_and_estimate(models)
            results[name] = with_judge_card(with_noise(answer, estimator, n_pairs), data, config)
        except CJEError as error:
            if config.dataset.limit is None:
                raise
            # A trial checks the calls; too few rows for an estimate are not a failure.
            found.append(TRIAL.finding(estimator=name, reason=error.what))
    return PipelineResult(
        results, weight_table(data), tuple(found), len(rows), n_errors, describe_run(config)
    )


def describe_run(config: PipelineConfig) -> dict[str, str]:
    """The run as text: names of models, without anything that could hold a key."""

    def model(section: PolicyConfig | JudgeConfig) -> str:
        same = section.model == section.provider
        return section.provider if same else f"{section.provider} {section.model}"

    words = {
        "judge": "; ".join(
            f"{model(judge)}, {judge.repeats} answers per response" for judge in config.judges
        ),
        "target policies": ", ".join(f"{p.name} ({model(p)})" for p in config.target_policies),
        "seed of the run": str(config.seed),
    }
    if config.logging_policy is not None:
        words["logging policy"] = f"{config.logging_policy.name} ({model(config.logging_policy)})"
    if config.oracle_config is not None:
        words["labels from"] = config.oracle_config.source
    return words


def check_canaries(rows: RowStream, data: Dataset, config: PipelineConfig) -> list[Finding]:
    """Check the log-probs before estimation; a refusal stops the run."""
    assert data.base_policy_logprob is not None
    assert data.target_policy_logprobs is not None
    found = identical_weights_canary(
        data.base_policy_logprob,
        data.target_policy_logprobs,
        data.target_policies,
        same_as_logging(config),
    )
    frame = rows.columns(
        "logp_given", "logp_generated", "generated_eos", "complete", "n_tokens", "logp_logging",
        "logp_target_all", "inside_token", "logp_end", "error",
    ).filter(pl.col("error").is_null())  # fmt: skip
    inside = inside_token_canary(frame["inside_token"])
    found += [] if inside is None else [inside]
    if config.logging_policy is not None and config.target_policy.rescore_logging:
        found += [f for f in _rescoring(frame, scored_twice(rows), config) if f is not None]
    refusals = [finding for finding in found if finding.severity is Severity.REFUSE]
    if refusals:
        raise CJEError(
            f"the log-probs cannot be right: {refusals[0].message}",
            where=refusals[0].subject,
            hint=refusals[0].action,
        )
    return found


def _rescoring(
    frame: pl.DataFrame, pairs: NDArray[np.float64], config: PipelineConfig
) -> list[Finding | None]:
    """Compare the logging policy's stored or generated log-probs with those scored again."""
    found: list[Finding | None] = []
    given = frame.filter(pl.col("logp_given").is_not_null())
    if len(given):
        found.append(self_ratio_canary(given["logp_given"], given["logp_logging"]))
    made = _generated_again(frame, config)
    if len(made):
        found.append(self_ratio_canary(made["logp_generated"], made["again"]))
        found.append(
            generated_vs_rescored_canary(made["logp_generated"], made["again"], made["n_tokens"])
        )
    if len(pairs):
        found.append(replicate_noise_canary(pairs))
        targets = np.array(frame["logp_target_all"].to_list(), dtype=np.float64)
        ratios = (targets - frame["logp_logging"].to_numpy()[:, None]).ravel()
        found.append(scoring_noise_canary(pairs, ratios))
    return found


def _generated_again(frame: pl.DataFrame, config: PipelineConfig) -> pl.DataFrame:
    """Generated rows with the score (``again``) of the tokens that their log-prob counts.

    A server that omits the end token while writing is compared without the end token.
    """
    scored_end = pl.col("complete") & _scores_eos(config)
    again = (
        pl.when(pl.col("generated_eos") == scored_end)
        .then(pl.col("logp_logging"))
        .when(scored_end & ~pl.col("generated_eos"))
        .then(pl.col("logp_logging") - pl.col("logp_end"))
    )
    return frame.with_columns(again.alias("again")).filter(
        pl.col("logp_generated").is_not_null() & pl.col("again").is_not_null()
    )


def _scores_eos(config: PipelineConfig) -> bool:
    """Whether a complete response's score contains its end-of-sequence token."""
    policy = config.logging_policy
    return policy is not None and (policy.provider == "ngram" or policy.eos_text is not None)


def weight_table(data: Dataset) -> list[dict[str, Any]]:
    """Raw importance weights of each target: mean (should be 1), maximum, effective sample size."""
    assert data.base_policy_logprob is not None
    assert data.target_policy_logprobs is not None
    table = []
    for k, name in enumerate(data.target_policies):
        ratio = data.target_policy_logprobs[:, k] - data.base_policy_logprob
        top = float(ratio.max())
        scaled = np.exp(ratio - top)  # avoids overflow
        table.append(
            {
                "policy": name,
                "n": len(ratio),
                "mean": float(scaled.mean() * np.exp(min(top, 700.0))),
                "max": float(np.exp(min(top, 700.0))),
                "ess_share": effective_sample_size(scaled) / len(ratio),
            }
        )
    return table


def _json(value: Any) -> bytes:
    if isinstance(value, str):
        return (value + "\n").encode()
    return (json.dumps(value, indent=1, sort_keys=True) + "\n").encode()
