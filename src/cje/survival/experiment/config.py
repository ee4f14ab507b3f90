"""The experiment's configuration: one YAML file, checked in full before anything runs."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from cje.errors import CJEError

__all__ = [
    "DEFAULT_SEEDS",
    "EXAMPLE",
    "ExperimentConfig",
    "ForestSettings",
    "NeuralSettings",
    "ScenarioName",
    "load_config",
]

ScenarioName = Literal["gaussian", "lognormal", "categorical", "heavy_censoring", "nonlinear"]
ModelName = Literal["true_risk", "cox", "forest", "neural"]

# Those of the founding document (docs/founding_documents.md, 003).
DEFAULT_SEEDS = [
    42, 123, 456, 789, 1011,
    2024, 2025, 2026, 3141, 2718,
    1618, 1414, 1732, 9999, 8888,
    7777, 6666, 5555, 4444, 3333,
]  # fmt: skip

EXAMPLE = """\
# cje survival run config.yaml
out: survival-results
scenarios: [gaussian, lognormal, categorical, heavy_censoring, nonlinear]
n: 1000
censoring: 0.3
correlation: 0.3
levels: 10            # of each categorical variable
neural:
  widths: [2, 4, 8, 16, 24, 32, 64, 128, 256]
  epochs: 300
  weight_decay: [0.0, 0.01]   # compared in paired.csv, seed by seed
processes: 2
# models: true_risk, cox, forest, and neural where torch is installed, unless listed here
# seeds: the twenty defaults unless listed here
"""


def _models_that_run_here() -> tuple[ModelName, ...]:
    """Every model; the neural one only where torch is installed."""
    usual: tuple[ModelName, ...] = ("true_risk", "cox", "forest")
    return usual if find_spec("torch") is None else (*usual, "neural")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ForestSettings(_Strict):
    """Random survival forest."""

    n_trees: int = Field(100, ge=1)
    min_samples_leaf: int = Field(15, ge=1)


class NeuralSettings(_Strict):
    """One-hidden-layer Cox network, swept over widths."""

    widths: tuple[int, ...] = (2, 4, 8, 16, 24, 32, 64, 128, 256)
    epochs: int = Field(300, ge=1)
    learning_rate: float = Field(0.01, gt=0)
    weight_decay: Annotated[float, Field(ge=0)] | tuple[Annotated[float, Field(ge=0)], ...] = 0.0

    @property
    def weight_decays(self) -> tuple[float, ...]:
        """Every penalty to train with; several are compared, paired by seed."""
        given = self.weight_decay
        return tuple(given) if isinstance(given, tuple) else (float(given),)

    @model_validator(mode="after")
    def _widths_are_positive(self) -> NeuralSettings:
        if not self.widths or min(self.widths) < 1 or len(set(self.widths)) < len(self.widths):
            raise ValueError("widths must be distinct positive integers")
        if not self.weight_decays or len(set(self.weight_decays)) < len(self.weight_decays):
            raise ValueError("weight_decay must be a number or a list of distinct numbers")
        return self


class ExperimentConfig(_Strict):
    """Everything that decides the numbers, and where they go."""

    out: Path
    scenarios: tuple[ScenarioName, ...] = (
        "gaussian", "lognormal", "categorical", "heavy_censoring", "nonlinear",
    )  # fmt: skip
    models: tuple[ModelName, ...] = Field(default_factory=_models_that_run_here)
    seeds: tuple[Annotated[int, Field(ge=0)], ...] = tuple(DEFAULT_SEEDS)
    n: int = Field(1000, ge=50)
    censoring: float = Field(0.3, ge=0, lt=0.95)
    heavy_censoring: float = Field(0.8, gt=0, lt=0.95)
    correlation: float = Field(0.3, ge=0, lt=1)
    levels: int = Field(10, ge=2, le=100)  # of each categorical variable
    train_share: float = Field(0.6, gt=0.1, lt=0.9)
    validation_share: float = Field(0.2, gt=0.05, lt=0.5)
    forest: ForestSettings = ForestSettings()
    neural: NeuralSettings = NeuralSettings()
    processes: int = Field(1, ge=1)

    @model_validator(mode="after")
    def _lists_make_sense(self) -> ExperimentConfig:
        for name in ("scenarios", "models", "seeds"):
            values = getattr(self, name)
            if not values or len(set(values)) < len(values):
                raise ValueError(f"{name} must be a list without repeats, with at least one entry")
        if self.train_share + self.validation_share >= 0.95:
            raise ValueError("train_share + validation_share must leave a test set")
        return self


def load_config(path: Path) -> ExperimentConfig:
    """Read and check a YAML file; a relative `out` is relative to the file's folder."""
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise CJEError("there is no such configuration file", where=str(path)) from error
    except OSError as error:
        raise CJEError(f"the file cannot be read: {error.strerror}", where=str(path)) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise CJEError(f"the file is not valid YAML: {error}", where=str(path)) from error
    if not isinstance(data, dict):
        raise CJEError("the file must hold settings by name", where=str(path), value=data,
                       hint="print one with: cje survival example")  # fmt: skip
    try:
        config = ExperimentConfig.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "settings"
        count = error.error_count()
        raise CJEError(
            first["msg"] if count == 1 else f"{first['msg']} ({count} problems in all)",
            where=f"{path}, {field}",
            value=first.get("input"),
            hint="print a valid file with: cje survival example",
        ) from error
    if config.out.is_absolute():
        return config
    return config.model_copy(update={"out": path.parent / config.out})
