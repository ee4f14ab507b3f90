"""Plan the runs, run those that are missing, and keep every finished one.

A run is one scenario, model and seed. Its record is written to disk (flushed, then renamed into
place) before it counts; a resumed experiment runs the plan minus the records that match it.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any

import numpy as np

from cje.errors import CJEError, require_extra
from cje.survival.experiment.config import ExperimentConfig
from cje.survival.experiment.evaluator import FittedModel, MetricEvaluator
from cje.survival.experiment.models import (
    CoxPHBaseline,
    KnownRisk,
    RandomSurvivalForestBaseline,
)
from cje.survival.experiment.neural import NeuralCox
from cje.survival.experiment.simulate import SimulatedData, simulate_survival

__all__ = ["Failure", "Run", "pending", "plan", "run_all", "run_one"]

# Raised when a change of code changes the numbers of a run: old records are then redone.
RECORD_VERSION = 2


@dataclass(frozen=True)
class Run:
    """One cell of the experiment."""

    scenario: str
    model: str
    seed: int
    width: int | None
    settings: str  # JSON of everything else that decides the numbers

    @property
    def key(self) -> str:
        """File-safe name, unique to the run and its settings."""
        digest = hashlib.sha256(f"{RECORD_VERSION}{self.settings}".encode()).hexdigest()[:10]
        model = self.model if self.width is None else f"{self.model}-{self.width}"
        return f"{self.scenario}.{model}.{self.seed}.{digest}"


def plan(config: ExperimentConfig) -> list[Run]:
    """Every run of the experiment, in a fixed order."""
    shared = config.model_dump(
        mode="json",
        include={"n", "censoring", "heavy_censoring", "correlation", "levels", "train_share",
                 "validation_share"},
    )  # fmt: skip
    runs = []
    for scenario in config.scenarios:
        for model in config.models:
            for own in _own_settings(config, model):
                settings = json.dumps(shared | own, sort_keys=True)
                widths = config.neural.widths if model == "neural" else (None,)
                runs += [Run(scenario, model, s, w, settings) for w in widths for s in config.seeds]
    return runs


def _own_settings(config: ExperimentConfig, model: str) -> list[dict[str, Any]]:
    """Settings that decide a model's numbers, besides the data; one entry per penalty."""
    if model == "forest":
        return [config.forest.model_dump()]
    if model != "neural":
        return [{}]
    rest = config.neural.model_dump(exclude={"widths", "weight_decay"})
    return [rest | {"weight_decay": penalty} for penalty in config.neural.weight_decays]


def _model(run: Run, settings: dict[str, Any]) -> Any:
    if run.model == "true_risk":
        return KnownRisk()
    if run.model == "cox":
        return CoxPHBaseline()
    if run.model == "forest":
        return RandomSurvivalForestBaseline(
            settings["n_trees"], settings["min_samples_leaf"], run.seed
        )
    assert run.width is not None
    return NeuralCox(
        run.width,
        epochs=settings["epochs"],
        learning_rate=settings["learning_rate"],
        weight_decay=settings["weight_decay"],
        seed=run.seed,
    )


def _splits(n: int, seed: int, settings: dict[str, Any]) -> dict[str, Any]:
    order = np.random.default_rng([seed, 1]).permutation(n)
    first = round(n * settings["train_share"])
    second = first + round(n * settings["validation_share"])
    return {"train": order[:first], "validation": order[first:second], "test": order[second:]}


def run_one(run: Run) -> dict[str, Any]:
    """Simulate, split, fit, and evaluate every metric on every split; the run's record."""
    settings = json.loads(run.settings)
    rate = settings["heavy_censoring" if run.scenario == "heavy_censoring" else "censoring"]
    data = simulate_survival(
        run.scenario,  # type: ignore[arg-type]  # checked there
        settings["n"],
        seed=run.seed,
        censoring=rate,
        correlation=settings["correlation"],
        levels=settings["levels"],
    )
    parts = {name: data.rows(rows) for name, rows in
             _splits(settings["n"], run.seed, settings).items()}  # fmt: skip
    train = parts["train"]
    model = _model(run, settings)
    fitted: FittedModel = model.fit(_covariates(run, train), train.time, train.event)
    evaluator = MetricEvaluator(train.time, train.event)
    rows = []
    for name, part in parts.items():
        result = evaluator.evaluate(fitted, _covariates(run, part), part.time, part.event)
        rows.append({"split": name} | asdict(result))
    parameters = model.n_parameters(data.x.shape[1]) if isinstance(model, NeuralCox) else None
    return {
        "key": run.key,
        "run": asdict(run),
        "n_parameters": parameters,
        "n_train_events": int(train.event.sum()),
        "censored_share": float(1 - data.event.mean()),
        "rows": rows,
    }


def _covariates(run: Run, part: SimulatedData) -> Any:
    return part.log_risk[:, None] if run.model == "true_risk" else part.x


def _record_path(folder: Path, run: Run) -> Path:
    return folder / "runs" / f"{run.key}.json"


def read_record(folder: Path, run: Run) -> dict[str, Any] | None:
    """The run's record, or None where there is none that can be read and matches."""
    path = _record_path(folder, run)
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError, UnicodeDecodeError):
        return None
    if not isinstance(record, dict) or record.get("key") != run.key or "rows" not in record:
        return None
    return record


def write_record(folder: Path, run: Run, record: dict[str, Any]) -> None:
    """Write the record to disk, atomically."""
    path = _record_path(folder, run)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    with temporary.open("w", encoding="utf-8") as handle:
        json.dump(record, handle, allow_nan=False)
        handle.flush()
        os.fsync(handle.fileno())
    os.replace(temporary, path)


def pending(config: ExperimentConfig) -> list[Run]:
    """The plan minus what is recorded."""
    return [run for run in plan(config) if read_record(config.out, run) is None]


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CJEError(f"the folder cannot be made: {error.strerror}", where=str(folder)) from error


def _need_packages(runs: Iterable[Run]) -> None:
    """Raise for a missing package before the first run, not when a later run needs it."""
    models = {run.model for run in runs}
    if "forest" in models:
        require_extra("sksurv.ensemble", "survival", "the model 'forest'")
    if "neural" in models:
        require_extra("torch", "local", "the model 'neural'")


def _end_with_parent() -> None:
    """Start a thread that ends this worker when its parent is gone.

    A parent that is killed cannot stop its workers, which would wait for ever.
    """
    parent = parent_process()
    if parent is None:
        return

    def wait() -> None:
        parent.join()
        os._exit(1)  # records are written whole or not at all, so nothing is lost

    threading.Thread(target=wait, daemon=True).start()


def _work(folder: Path, run: Run) -> str:
    write_record(folder, run, run_one(run))
    return run.key


def _outcomes(
    config: ExperimentConfig, runs: list[Run]
) -> Iterator[tuple[Run, BaseException | None]]:
    """Each run as it ends, with its error if it failed."""
    if config.processes == 1:
        for run in runs:
            try:
                _work(config.out, run)
            except (CJEError, ArithmeticError, np.linalg.LinAlgError) as error:
                yield run, error
            else:
                yield run, None
        return
    # The processes are the parallelism: one thread in each, unless the user said otherwise. It is
    # set here because a child reads it when it imports NumPy. Spawn: forking a process whose torch
    # or BLAS threads have started can hang.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    pool = ProcessPoolExecutor(
        config.processes, mp_context=get_context("spawn"), initializer=_end_with_parent
    )
    try:
        futures = {pool.submit(_work, config.out, run): run for run in runs}
        for future in as_completed(futures):
            yield futures[future], future.exception()
    finally:  # an interrupt must not wait for the runs that have not begun
        pool.shutdown(cancel_futures=True)


@dataclass(frozen=True)
class Failure:
    """A run that could not be done, and why."""

    run: Run
    reason: str


def run_all(
    config: ExperimentConfig, *, on_progress: Callable[[int, int], None] | None = None
) -> tuple[list[dict[str, Any]], list[Failure]]:
    """Do the runs that are missing; all records in plan order, and the runs that failed.

    A failed run stops neither the others nor their tables. It is tried again next time.

    Raises
    ------
    CJEError
        A package is missing, the folder cannot be made, or every run failed.
    """
    everything = plan(config)
    _make_folder(config.out / "runs")
    todo = pending(config)
    _need_packages(todo)
    done = len(everything) - len(todo)
    failed: list[Failure] = []
    _report(on_progress, done, len(everything))
    for run, error in _outcomes(config, todo):
        if error is not None:
            failed.append(Failure(run, f"{type(error).__name__}: {error}"))
            continue
        done += 1
        _report(on_progress, done, len(everything))
    if len(failed) == len(everything):
        raise CJEError(
            f"every run failed. The first: {failed[0].reason}",
            where=failed[0].run.key,
            hint="correct the settings and run again",
        )
    missing = {failure.run.key for failure in failed}
    finished = [run for run in everything if run.key not in missing]
    return list(_all_records(config.out, finished)), failed


def _all_records(folder: Path, runs: Iterable[Run]) -> Iterator[dict[str, Any]]:
    for run in runs:
        record = read_record(folder, run)
        if record is None:
            raise CJEError("the record of a finished run is missing", where=run.key)
        yield record


def _report(on_progress: Callable[[int, int], None] | None, done: int, total: int) -> None:
    if on_progress is not None:
        on_progress(done, total)
