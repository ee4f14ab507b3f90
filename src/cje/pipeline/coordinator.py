"""`CJEPipeline`: the order of the stages. The stages themselves are pure.

Each stage is a method that takes the rows of the stage before it, so teacher forcing cannot be left
out: the estimation stage accepts only rows of the target-policy stage.
"""

from __future__ import annotations

import asyncio
import json
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count, islice
from typing import Any

from cje.errors import CJEError
from cje.estimators.offpolicy.base import OffPolicyEstimator
from cje.findings import Finding
from cje.pipeline.chunks import Chunk, RowStream, write_chunk
from cje.pipeline.config import PipelineConfig
from cje.pipeline.disk import write_atomically
from cje.pipeline.hashing import fingerprint
from cje.pipeline.preflight import require_servers
from cje.pipeline.stage_runner import StageRunner
from cje.pipeline.stages.base import schema_after
from cje.pipeline.stages.calibration import (
    calibrated_rewards,
    calibration_fingerprint,
    stored_models,
)
from cje.pipeline.stages.columns import fresh_dataset, logged_dataset
from cje.pipeline.stages.control_text import control_text_findings
from cje.pipeline.stages.dataset import dataset_chunks, dataset_fingerprint, read_rows
from cje.pipeline.stages.direct import estimate_direct, write_rows_to_label
from cje.pipeline.stages.estimation import PipelineResult, estimate
from cje.pipeline.stages.estimators import check_estimators, configured_estimators
from cje.pipeline.stages.judge import JudgeStage
from cje.pipeline.stages.logging_policy import LoggingPolicyStage
from cje.pipeline.stages.noise import measured_noise
from cje.pipeline.stages.oracle import OracleStage, draw_slice, report_labels, slice_fingerprint
from cje.pipeline.stages.pairs import (
    PairJudgeStage,
    PairOracleStage,
    found_pairs,
    made_pairs,
    write_pairs,
)
from cje.pipeline.stages.pairwise import estimate_pairwise, write_comparisons_to_label
from cje.pipeline.stages.target_policy import TeacherForcing, validate_target_policy_computation

__all__ = ["CJEPipeline"]


class CJEPipeline(StageRunner):
    """From contexts to estimates, resumable at any point.

    Parameters
    ----------
    config : PipelineConfig
        As read by `cje.pipeline.load_config`.
    reporter : Reporter, optional
        Shows progress; silent by default.

    Examples
    --------
    >>> from cje.pipeline import CJEPipeline, load_config
    >>> result = CJEPipeline(load_config("config.yaml")).run()        # doctest: +SKIP
    >>> print(result.summary())                                       # doctest: +SKIP
    """

    def run(self) -> PipelineResult:
        """Run all stages; finished work of an earlier run is reused."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._run()
        # Inside a notebook's event loop the run gets its own thread and loop.
        with ThreadPoolExecutor(1) as thread, self._interruptible():
            return thread.submit(self._run).result()

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        """Let Ctrl-C stop the run although it works in another thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(*_: object) -> None:
            self._stopped = True
            if self._executor is not None:
                self._executor.stop()

        before = signal.signal(signal.SIGINT, stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _run(self) -> PipelineResult:
        check_estimators(self.config)
        with self._opened():
            rows = self._run_stage("dataset", self._load_dataset)
            self._check_servers(rows)
            if self.config.is_pairwise:
                return self._run_pairwise()
            if self.config.is_direct:
                return self._run_direct()
            rows = self._run_stage("logging_policy", self._generate_logging_responses, rows)
            rows = self._run_stage("judge", self._score_with_judge, rows)
            if self.config.oracle_config is not None:
                rows = self._run_stage("oracle", self._generate_oracle_labels, rows)
            rows = self._run_stage("target_policy", self._compute_target_logprobs, rows)
            fresh = None
            if self.config.fresh_draws is not None:
                fresh = self._run_stage("fresh_draws", self._draw_fresh, rows)
            rows = self._run_stage("calibration", self._calibrate_scores, rows, fresh)
            return self._run_stage("estimation", self._run_estimators, rows, fresh)

    def _run_direct(self) -> PipelineResult:
        """Every policy writes, the judge scores, and a slice of each policy's rows is labelled."""
        judged = {}
        for index, policy in enumerate(self.config.policies):
            part = self.config.for_policy(index)
            name = policy.name
            rows = self._load_dataset(part, f"dataset of {name}")
            for stage, label in (
                (LoggingPolicyStage(part), f"responses of {name}"),
                (JudgeStage(part), f"judge of {name}"),
            ):
                rows = self._run_stage(label, self._called(stage, label), rows)
            if part.oracle_config is not None and not part.labels_from_file:
                label = f"oracle of {name}"
                rows = self._run_stage(label, self._generate_oracle_labels, rows, part, label)
            judged[name] = rows
        return self._run_stage("estimation", self._estimate_direct, judged)

    def _run_pairwise(self) -> PipelineResult:
        """Every policy writes, the judge compares pairs, and a slice of them is labelled."""
        written = {}
        for index, policy in enumerate(self.config.policies):
            part, label = self.config.for_policy(index), f"responses of {policy.name}"
            rows = self._load_dataset(part, f"dataset of {policy.name}")
            written[policy.name] = self._run_stage(
                label, self._called(LoggingPolicyStage(part), label), rows
            )
        oracle = self.config.oracle_config
        judged = []
        for pair in self.config.pairs:
            name = " and ".join(pair)
            rows = self._pairs(pair, written)
            label = f"judge of {name}"
            rows = self._run_stage(label, self._called(PairJudgeStage(self.config), label), rows)
            if oracle is not None and oracle.source == "model":
                label = f"oracle of {name}"
                rows = self._run_stage(label, self._label_pairs, rows, label)
            judged.append(rows)
        return self._run_stage("estimation", self._estimate_pairwise, judged)

    def _pairs(self, pair: tuple[str, str], written: dict[str, RowStream]) -> RowStream:
        a, b = (written[name] for name in pair)
        made = found_pairs(self.work_dir, self._store, pair, a, b)
        if made is None:
            made = write_pairs(self.work_dir, self._store, pair, a, b)
        label = f"pairs of {' and '.join(pair)}"
        return self._finished("pairs", made_pairs(pair, a, b), made.chunks, label)

    def _label_pairs(self, rows: RowStream, label: str) -> RowStream:
        name = slice_fingerprint(self.config, rows)
        rows = self._column_stage(
            "pair_slice", name, rows, lambda: self._drawn(rows), f"slice, {label}"
        )
        return self._call_stage(PairOracleStage(self.config), rows, label)

    def _estimate_pairwise(self, judged: list[RowStream]) -> PipelineResult:
        write_comparisons_to_label(judged, self.config, self.work_dir)
        return self._write(estimate_pairwise(judged, self.config, self._findings))

    def _drawn(self, rows: RowStream) -> dict[str, Any]:
        """The rows to label, and each row's probability of being drawn."""
        assert self.config.oracle_config is not None  # checked by the callers
        scores = rows.columns("judge_score")["judge_score"]
        drawn = draw_slice(self.config.oracle_config, scores, self.config.seed)
        return {"oracle_selected": drawn.selected, "label_propensity": drawn.propensity}

    def _estimate_direct(self, judged: dict[str, RowStream]) -> PipelineResult:
        if self.config.labels_from_file:
            write_rows_to_label(judged, self.config, self.work_dir)
        return self._write(estimate_direct(judged, self.config, self._findings))

    def _write(self, result: PipelineResult) -> PipelineResult:
        """Write the files of a result."""
        files = {f"result/{name}": data for name, data in result.files().items()}
        for name, data in files.items():
            write_atomically(self.work_dir / name, data)
        self._manifest.files(files)
        return result

    # -- stages ------------------------------------------------------------------------------

    def _load_dataset(
        self, config: PipelineConfig | None = None, label: str | None = None
    ) -> RowStream:
        """1. Contexts, cut into chunks."""
        config = config or self.config
        name = dataset_fingerprint(config.dataset, config.chunk_rows)
        chunks = dataset_chunks(self.work_dir, self._store, name)
        if chunks is None:
            chunks = tuple(self._cut(name, config))
            self._store.record_stage("dataset", name, len(chunks))
        return self._finished("dataset", name, chunks, label)

    def _cut(self, name: str, config: PipelineConfig) -> Iterator[Chunk]:
        rows = read_rows(config.dataset)
        for index in count():
            part = list(islice(rows, config.chunk_rows))
            if not part:
                return
            yield write_chunk(
                self.work_dir, self._store, "dataset", fingerprint(name, index), part,
                schema_after("dataset"),
            )  # fmt: skip

    def _generate_logging_responses(self, rows: RowStream) -> RowStream:
        """2. One response for each context, or the logged ones."""
        return self._call_stage(LoggingPolicyStage(self.config), rows)

    def _score_with_judge(self, rows: RowStream) -> RowStream:
        """3. A judge score, with its variance, for each response."""
        return self._call_stage(JudgeStage(self.config), rows)

    def _generate_oracle_labels(
        self, rows: RowStream, config: PipelineConfig | None = None, label: str | None = None
    ) -> RowStream:
        """4. Labels on a slice drawn with known propensities."""
        config = config or self.config
        oracle = config.oracle_config
        if oracle is None:
            raise CJEError("there is no oracle_config", hint="leave the oracle stage out")
        name = slice_fingerprint(config, rows)
        judged = rows
        rows = self._column_stage(
            "oracle_slice", name, judged, lambda: self._drawn(judged), label and f"slice, {label}"
        )
        labelled = self._call_stage(OracleStage(config), rows, label)
        self._findings += report_labels(labelled, oracle)
        return labelled

    def _compute_target_logprobs(self, rows: RowStream) -> RowStream:
        """5. Teacher forcing: the logged responses under every target policy."""
        scored = self._call_stage(TeacherForcing(self.config), rows)
        checked = scored.select("row_id", "logp_target_all", "error")
        validate_target_policy_computation(checked, len(self.config.target_policies))
        return scored

    def _draw_fresh(self, rows: RowStream) -> dict[str, RowStream]:
        """Judged responses of the targets to the same contexts, for doubly robust estimators."""
        drawn = {}
        for policy in self.config.target_policies:
            config = self.config.for_fresh_draws(policy)
            made = self._load_dataset(config, f"fresh dataset of {policy.name}")
            made = self._call_stage(LoggingPolicyStage(config), made, f"fresh of {policy.name}")
            drawn[policy.name] = self._call_stage(
                JudgeStage(config), made, f"fresh judged of {policy.name}"
            )
        return drawn

    def _calibrate_scores(self, rows: RowStream, fresh: dict[str, RowStream] | None) -> RowStream:
        """6. Reward models for the estimators, and the reward of every row."""
        name = calibration_fingerprint(self.config, rows, fresh)

        def columns() -> dict[str, Any]:
            return {"reward": calibrated_rewards(self.work_dir, name, rows, self.config, fresh)}

        def estimators() -> dict[str, OffPolicyEstimator]:
            draws = None if fresh is None else fresh_dataset(fresh, self.config)
            return configured_estimators(
                logged_dataset(rows, self.config), draws, self.config, noise=measured_noise(rows)
            )

        made = self._column_stage("calibration", name, rows, columns)
        self._models = stored_models(self.work_dir, name, self.config, estimators)
        return made

    def _run_estimators(
        self, rows: RowStream, fresh: dict[str, RowStream] | None
    ) -> PipelineResult:
        """7. Canaries, estimates, files."""
        return self._write(estimate(rows, self.config, self._findings, fresh, self._models))

    def _check_servers(self, rows: RowStream) -> None:
        """Probe keys and servers once per run; a resumed run reads the recorded findings."""
        name = f"servers {self._run_name(rows)}"
        note = self._store.note(name)
        if note is None:
            found = require_servers(self.config, self._store, self._reporter.note)
            self._store.write_note(name, json.dumps([finding.to_dict() for finding in found]))
        else:
            found = [Finding.from_dict(data) for data in json.loads(note)]
        self._findings += [*found, *control_text_findings(rows, self.config)]
        # Created after the checks, so that its budget includes what they spent.
        self._executor = self._make_executor()

    def _run_name(self, dataset: RowStream) -> str:
        """Fingerprint of everything that decides the result."""
        return fingerprint(self._manifest.settings, [chunk.sha256 for chunk in dataset.chunks])
