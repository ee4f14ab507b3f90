"""Which rows of the data the entries of a labels file belong to."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

from cje.data.dataset import Dataset
from cje.errors import CJEError

__all__ = ["place_entries", "row_keys"]

K = TypeVar("K", bound=Hashable)


def row_keys(data: Dataset) -> list[tuple[str, str, int]]:
    """Prompt, policy and draw of every row: the key of a row in a labels file."""
    return list(
        zip(data.prompt_id.decode(), data.policy.decode(), data.draw_idx.tolist(), strict=True)
    )


def place_entries(
    keys: Sequence[K], place: Mapping[K, int], data: Dataset, where: str, what: str
) -> tuple[list[int], list[int], list[str]]:
    """The entries that have a row in the data, their rows, and a note on the others.

    An entry may be without its row where reading the data skipped invalid rows (`cje label` shows
    rows without a judge score too); more entries without rows than skipped rows are an error.

    Parameters
    ----------
    keys : sequence
        What each entry of the labels file calls its row.
    place : mapping
        The row of each key.
    what : str
        The entries' name in messages, such as "label".

    Raises
    ------
    CJEError
        An entry belongs to other data, or no entry has a row.
    """
    kept = [i for i, key in enumerate(keys) if key in place]
    missing = dict.fromkeys(key for key in keys if key not in place)
    skipped = data.metadata.get("skipped", {}).get("rows", 0)
    if missing and (len(missing) > skipped or not kept):
        raise CJEError(
            f"{len(missing)} of {len(set(keys))} {what}s belong to rows that the data do not have",
            where=where, value=next(iter(missing)),
            hint="give the data that the labels file was made from, with the same --field and "
            "--policy-column options (fields=) as cje label",
        )  # fmt: skip
    lost = len(keys) - len(kept)
    notes = [f"{lost} {what}s of {where} belong to skipped rows and are left out"] if lost else []
    return kept, [place[keys[i]] for i in kept], notes
