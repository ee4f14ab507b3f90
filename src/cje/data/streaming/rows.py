"""`StreamedRows`: the labelled rows of a large file, and all its rows in parts of whole prompts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl

from cje.data import columns
from cje.data.codes import Codes
from cje.data.dataset import Dataset
from cje.data.problems import BadRows
from cje.data.scale import Scale
from cje.data.versions import repeats_question
from cje.kernels.arrays import BoolArray, FloatArray, IntArray

__all__ = ["Part", "StreamedRows"]


@dataclass(frozen=True)
class Part:
    """The rows of some prompts, all of them, in file order.

    Attributes
    ----------
    prompt : Codes
    policy, score : int array (n,)
        Positions in the policies and in the distinct scores.
    row : int array (n,)
        Row of the file, from 0.
    place : int array (n,)
        Position among the rows of its policy, from 0.
    labelled : bool array (n,)
    """

    prompt: Codes
    policy: IntArray
    score: IntArray
    row: IntArray
    place: IntArray
    labelled: BoolArray


@dataclass(frozen=True, eq=False)
class StreamedRows:
    """One evaluation that is read in parts; scores and labels are on [0, 1].

    Attributes
    ----------
    labelled : Dataset
        The labelled rows, in file order; its policies are those of the whole file.
    labelled_rows : int array
        Their rows of the file.
    scores : float array (D,)
        Distinct judge scores, increasing.
    counts : int array (K, D)
        Rows of each policy with each score.
    folder : TemporaryDirectory
        Holds the parts until `close`.
    n_parts : int
    name : str
        The file's.
    repeats_allowed : bool
        Whether several rows of one policy and prompt are draws.
    row_name : callable
    policy_path : sequence of str, optional
        Column that names the policy.
    score_rank : int array (D,)
        Position among `scores` of each score as the parts code it.
    """

    labelled: Dataset
    labelled_rows: IntArray
    scores: FloatArray
    counts: IntArray
    folder: TemporaryDirectory[str]
    n_parts: int
    name: str
    repeats_allowed: bool
    row_name: Callable[[int], str]
    policy_path: Sequence[str] | None
    score_rank: IntArray

    def __len__(self) -> int:
        return int(self.counts.sum())

    @property
    def policies(self) -> tuple[str, ...]:
        """Names of the policies, in order of first appearance."""
        return self.labelled.policy.names

    @property
    def n_labelled(self) -> int:
        return len(self.labelled)

    @property
    def judge_scale(self) -> Scale:
        return self.labelled.judge_scale

    @property
    def oracle_scale(self) -> Scale:
        return self.labelled.oracle_scale

    @property
    def metadata(self) -> Mapping[str, Any]:
        """As of a `Dataset`: ``reading``, ``columns``, ``sources``, ``findings``, ``unused``."""
        return self.labelled.metadata

    def part(self, number: int) -> Part | None:
        """The rows of one part, checked for repeats; None where no prompt fell into it.

        Raises
        ------
        CJEError
            Two rows of one policy and prompt (and draw).
        """
        files = sorted((Path(self.folder.name) / str(number)).glob("*.ipc"))
        if not files:
            return None
        frame = pl.concat([pl.read_ipc(file) for file in files])
        policy = Codes(frame["policy"].to_numpy(), self.policies)
        part = Part(
            Codes.from_series(frame["prompt"]),
            policy.codes,
            self.score_rank[frame["score"].to_numpy()],
            frame["row"].to_numpy(),
            frame["place"].to_numpy(),
            frame["labelled"].to_numpy(),
        )
        draws = frame["draw"].to_numpy() if "draw" in frame.columns else None
        if draws is not None or not self.repeats_allowed:
            self._check_repeats(part, policy, draws)
        return part

    def _check_repeats(self, part: Part, policy: Codes, draws: IntArray | None) -> None:
        repeated = columns.repeated_rows(policy, part.prompt, draws)
        if not len(repeated):
            return
        row = int(repeated[0])
        hint, answers = repeats_question([], self.policy_path)
        BadRows(skip=False).found(
            columns.DUPLICATE_ROW,
            where=f"{self.name}, {self.row_name(int(part.row[row]))}",
            value=columns.row_key(policy, part.prompt, draws, row),
            hint=hint,
            answers=answers,
            count=len(repeated),
        )

    def scratch(self, number: int, suffix: str) -> Path:
        """A file for what is computed from one part."""
        return Path(self.folder.name) / f"{number}.{suffix}"

    def forget(self, number: int) -> None:
        """Remove the rows of a part, once they are not needed again."""
        for file in (Path(self.folder.name) / str(number)).glob("*.ipc"):
            file.unlink()

    def close(self) -> None:
        """Remove the temporary files."""
        self.folder.cleanup()

    def row_of_policy(self) -> IntArray:
        """(K,) rows of each policy."""
        return np.asarray(self.counts.sum(axis=1))
