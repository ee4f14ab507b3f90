"""Embeddings of texts by a static model in a folder of this machine; nothing is downloaded.

Static models (model2vec) average the vectors of a text's tokens: thousands of texts per second on a
CPU, without torch. Any sentence transformer can be distilled into one.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from cje.data.codes import Strings
from cje.errors import CJEError, require_extra
from cje.kernels.arrays import FloatArray

__all__ = ["embed", "model_name"]

_HINT = (
    "name a folder with a model2vec model (config.json, tokenizer.json, model.safetensors), such "
    "as one fetched by: hf download minishlab/potion-base-8M --local-dir potion-base-8M"
)


def embed(texts: Strings, folder: str | Path) -> FloatArray:
    """(n, d) embeddings of whole texts; an empty text is the zero vector.

    Raises
    ------
    CJEError
        The folder is not one, holds no model that model2vec reads, or model2vec is not installed.
    """
    model = _model(str(folder))
    found = model.encode(
        texts.to_series().fill_null("").to_list(), max_length=None, use_multiprocessing=False
    )
    table = np.asarray(found, dtype=np.float64)
    if not np.isfinite(table).all():
        raise CJEError(
            "the text model gives embeddings that are not finite", value=str(folder), hint=_HINT
        )
    return table


def model_name(folder: str | Path) -> str:
    """The name of a model for people: its folder's."""
    return Path(folder).resolve().name


@lru_cache(maxsize=2)
def _model(folder: str) -> Any:
    """The model; a name that is not a folder would be downloaded, so it is refused."""
    if not Path(folder).is_dir():
        raise CJEError("text_model is not a folder", value=folder, hint=_HINT)
    model2vec = require_extra("model2vec", "text", "text_model")
    try:
        return model2vec.StaticModel.from_pretrained(folder)
    except (ValueError, KeyError, OSError) as error:
        raise CJEError(
            f"model2vec cannot read the text model: {error}", value=folder, hint=_HINT
        ) from error
