"""Prompts on which a candidate gains or loses most against the baseline."""

from __future__ import annotations

import numpy as np

from cje.data.codes import Strings
from cje.data.dataset import Dataset
from cje.kernels.arrays import BoolArray, FloatArray, IntArray
from cje.report import PairExample, PairExamples
from cje.report.wording import shorten
from cje.results.result import EstimationResult

__all__ = ["pairs_part"]

_MOST_CANDIDATES, _MOST_PAIRS, _MOST_COLUMNS = 6, 160, 6
_MOST_BYTES = 270_000
_PROMPT_CHARACTERS, _RESPONSE_CHARACTERS = 1200, 2400
_NOTE = (
    "Calibrated difference: candidate minus baseline of the label predicted from each judge score. "
    "It ranks the pairs; a single one is as noisy as the judge."
)


def pairs_part(result: EstimationResult) -> PairExamples | None:
    """The pairs with the largest calibrated differences, if the text of responses was kept."""
    evidence = result.evidence
    if evidence is None or evidence.predict is None or evidence.dataset.response is None:
        return None
    data, base = evidence.dataset, result.baseline
    refused = result.refused()
    names = [n for n in result.policies if n != base and n not in refused][:_MOST_CANDIDATES]
    if base in refused or not names:
        return None
    first = _first_rows(data, base)
    room = max(_MOST_PAIRS // len(names), 10)
    found = [pair for name in names for pair in _of(result, data, base, first, name, room)]
    while room > 2 and (size := sum(map(_size, found))) > _MOST_BYTES:
        room = max(int(0.9 * room * _MOST_BYTES / size), 2)
        found = [pair for name in names for pair in _of(result, data, base, first, name, room)]
    if not found:
        return None
    columns = tuple(list(data.groups)[:_MOST_COLUMNS])
    note = _NOTE
    if len(names) < len(result.policies) - 1:
        note += " Refused versions, and those beyond the first six, are not shown."
    return PairExamples("Where they differ", base, tuple(names), columns, tuple(found), note)


def _size(pair: PairExample) -> int:
    """Bytes of its texts in the page, in which ``<``, ``>`` and ``&`` take six each."""
    texts = (pair.prompt, pair.before, pair.after)
    marks = sum(text.count(mark) for text in texts for mark in "<>&")
    return sum(len(text.encode("utf-8")) for text in texts) + 5 * marks


def _first_rows(data: Dataset, policy: str) -> IntArray:
    """Row of one policy's first draw by prompt code; -1 for prompts without one."""
    rows = np.flatnonzero(data.policy.mask(policy))
    order = rows[np.lexsort((data.draw_idx[rows], data.prompt_id.codes[rows]))]
    prompts, at = np.unique(data.prompt_id.codes[order], return_index=True)
    out = np.full(data.prompt_id.n_names, -1, dtype=np.int64)
    out[prompts] = order[at]
    return out


def _of(
    result: EstimationResult,
    data: Dataset,
    base: str,
    first: IntArray,
    name: str,
    room: int,
) -> list[PairExample]:
    """The pairs of one candidate: the largest losses, the largest gains, and labelled ones."""
    assert result.evidence is not None
    assert result.evidence.predict is not None
    own = _first_rows(data, name)
    shared = np.flatnonzero((own >= 0) & (first >= 0))
    if not len(shared):
        return []
    before, after = first[shared], own[shared]
    predict = result.evidence.predict
    gain = (predict(after) - predict(before)) * data.oracle_scale.width
    labelled = np.isfinite(data.oracle_label[before]) & np.isfinite(data.oracle_label[after])
    chosen = _chosen(gain, labelled, data.oracle_label[after] - data.oracle_label[before], room)
    return [_example(data, name, base, before[k], after[k], float(gain[k])) for k in chosen]


def _chosen(gain: FloatArray, labelled: BoolArray, label_gain: FloatArray, room: int) -> list[int]:
    """Positions, the largest loss first; a fifth of them are pairs with both labels."""
    judged = np.flatnonzero(labelled)
    judged = judged[np.argsort(-np.abs(label_gain[judged]), kind="stable")][: room // 5]
    rest = room - len(judged)
    kept = np.unique(
        np.concatenate([_least(gain, rest // 2), _greatest(gain, rest - rest // 2), judged])
    )
    ordered: IntArray = kept[np.argsort(gain[kept], kind="stable")]
    return [int(k) for k in ordered]


def _least(values: FloatArray, n: int) -> IntArray:
    """Positions of the n smallest values; of equal ones those in front, as in a stable sort."""
    if n < len(values):
        near = np.flatnonzero(values <= np.partition(values, n)[n])
    else:
        near = np.arange(len(values))
    return near[np.argsort(values[near], kind="stable")][:n]


def _greatest(values: FloatArray, n: int) -> IntArray:
    """Positions of the n greatest values; of equal ones those behind, as in a stable sort."""
    return len(values) - 1 - _least(-values[::-1], n)


def _example(
    data: Dataset, name: str, base: str, before: int, after: int, gain: float
) -> PairExample:
    columns = list(data.groups.values())[:_MOST_COLUMNS]
    prompt = _text(data.prompt, after, _PROMPT_CHARACTERS)
    scale, judge = data.oracle_scale, data.judge_scale
    return PairExample(
        candidate=name,
        prompt_id=shorten(data.prompt_id.name_at(after), 80),
        prompt=prompt,
        before=_text(data.response, before, _RESPONSE_CHARACTERS),
        after=_text(data.response, after, _RESPONSE_CHARACTERS),
        difference=gain,
        labels=(
            _number(scale.from_unit(data.oracle_label[before])),
            _number(scale.from_unit(data.oracle_label[after])),
        ),
        scores=(
            _number(judge.from_unit(data.judge_score[before])),
            _number(judge.from_unit(data.judge_score[after])),
        ),
        groups=tuple(shorten(codes.name_at(after), 60) for codes in columns),
    )


def _text(text: Strings | None, row: int, limit: int) -> str:
    return "" if text is None else shorten(text[int(row)] or "", limit)


def _number(value: object) -> float | None:
    number = float(value)  # type: ignore[arg-type]
    return number if np.isfinite(number) else None
