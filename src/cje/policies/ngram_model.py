"""A tiny word n-gram language model, trained in place, and sampled and scored exactly."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files

import numpy as np

from cje.errors import CJEError
from cje.kernels.arrays import FloatArray

__all__ = ["BOS", "EOS", "UNK", "NgramModel", "embedded_corpus", "split_words"]

EOS, BOS, UNK = "</s>", "<s>", "<unk>"
EOS_ID, BOS_ID, UNK_ID = 0, 1, 2
# A word or a sign with the space before it; any other space alone. Their concatenation is the text.
_WORD = re.compile(r" ?[A-Za-z0-9']+| ?[^\sA-Za-z0-9']|\s")
_SPECIAL = re.compile(f"({re.escape(EOS)}|{re.escape(BOS)})")


def split_words(text: str, *, specials: bool = False) -> list[str]:
    """Split a text into tokens whose concatenation is the text.

    Examples
    --------
    >>> split_words("Hi there, you.")
    ['Hi', ' there', ',', ' you', '.']
    >>> split_words("Yes.</s>", specials=True)
    ['Yes', '.', '</s>']
    """
    if not specials:
        return _WORD.findall(text)
    pieces: list[str] = []
    for part in _SPECIAL.split(text):
        pieces += [part] if part in (EOS, BOS) else _WORD.findall(part)
    return pieces


@lru_cache(maxsize=1)
def embedded_corpus() -> tuple[str, ...]:
    """The short support dialogues shipped with the package, one ``question\\tanswer`` per line."""
    text = files("cje.policies").joinpath("corpus.txt").read_text(encoding="utf-8")
    return tuple(line for line in text.splitlines() if line and not line.startswith("#"))


class NgramModel:
    r"""Interpolated word n-grams with a uniform floor.

    With h_j the last j tokens and c(.) training counts,

    .. math:: p_j(w \mid h_j) = \frac{c(h_j w) + \kappa\, p_{j-1}(w \mid h_{j-1})}
                                     {c(h_j) + \kappa}, \qquad p_{-1}(w) = 1/V,

    so every known word has positive probability after every history (Dirichlet-smoothed back-off,
    MacKay and Peto 1995). A policy is this model with a logit boost on some words, a temperature
    and a top-p cut: p'(w) is proportional to exp((log p(w) + b_w) / T) on the words kept.

    Parameters
    ----------
    corpus : iterable of str, optional
        Lines ``question<TAB>answer``, or plain lines (answers with no question). Default: the
        embedded corpus.
    order : int
        n; a token depends on the n-1 before it.
    smoothing : float
        kappa: the weight of the shorter history.
    boost : mapping, optional
        Word (without its leading space) to added logit.
    """

    def __init__(
        self,
        corpus: Iterable[str] | None = None,
        *,
        order: int = 3,
        smoothing: float = 1.0,
        boost: Mapping[str, float] | None = None,
    ) -> None:
        if order < 1 or not smoothing > 0.0:
            raise CJEError("order must be at least 1 and smoothing positive", value=order)
        self.order, self.smoothing, self.boost = order, float(smoothing), dict(boost or {})
        lines = tuple(embedded_corpus() if corpus is None else corpus)
        if not any(line.strip() for line in lines):
            raise CJEError("the corpus is empty", hint="give at least one line of text")
        self._digest = sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()
        pairs = [_pair(line) for line in lines if line.strip()]
        words = sorted({word for pair in pairs for part in pair for word in part})
        self.vocabulary: tuple[str, ...] = (EOS, BOS, UNK, *words)
        self._ids = {word: i for i, word in enumerate(self.vocabulary)}
        self._counts = self._count(pairs)
        self._logits = self._boost_vector()
        self._cache: dict[tuple[tuple[int, ...], float, float], FloatArray] = {}

    # training -----------------------------------------------------------------------------------

    def _count(
        self, pairs: Sequence[tuple[list[str], list[str]]]
    ) -> dict[tuple[int, ...], Counter[int]]:
        counts: dict[tuple[int, ...], Counter[int]] = {}
        for question, answer in pairs:
            ids = [self._ids[word] for word in (*question, *answer)] + [EOS_ID]
            padded = [BOS_ID] * (self.order - 1) + ids
            # Only answers are learnt; questions are histories.
            for at in range(self.order - 1 + len(question), len(padded)):
                for length in range(self.order):
                    history = tuple(padded[at - length : at])
                    counts.setdefault(history, Counter())[padded[at]] += 1
        return counts

    def _boost_vector(self) -> FloatArray:
        logits = np.zeros(len(self.vocabulary))
        logits[[BOS_ID, UNK_ID]] = -np.inf  # never produced
        # A word without its space would merge with the word before it, and the text would not
        # show which tokens were sampled: such words are only part of contexts.
        logits[[i for i, word in enumerate(self.vocabulary) if _merges(word)]] = -np.inf
        known = {word.strip(): word for word in self.vocabulary}
        for word, value in self.boost.items():
            if word not in known:
                raise CJEError("boost names a word the corpus does not have", value=word)
            if not np.isfinite(value):
                raise CJEError("a boost must be a finite number", where=word, value=value)
            for form in (word, " " + word):
                if form in self._ids:
                    logits[self._ids[form]] += value
        return logits

    # tokens -------------------------------------------------------------------------------------

    def encode(self, text: str, *, specials: bool = False) -> list[int]:
        """Token ids; an unknown word is `UNK`."""
        return [self._ids.get(word, UNK_ID) for word in split_words(text, specials=specials)]

    def decode(self, ids: Iterable[int]) -> str:
        """Text of some token ids, special tokens left out."""
        return "".join(self.vocabulary[i] for i in ids if i > UNK_ID)

    # probabilities ------------------------------------------------------------------------------

    def history(self, ids: Sequence[int]) -> tuple[int, ...]:
        """The part of a token sequence that the next token depends on."""
        length = self.order - 1
        if length == 0:
            return ()
        return tuple(([BOS_ID] * length + list(ids[-length:]))[-length:])

    def next_log_probs(
        self, history: tuple[int, ...], temperature: float = 1.0, top_p: float = 1.0
    ) -> FloatArray:
        """log p'(w | history) for every token of the vocabulary, exactly (``-inf`` where cut)."""
        key = (history, temperature, top_p)
        cached = self._cache.get(key)
        if cached is None:
            cached = self._cache[key] = self._compute(history, temperature, top_p)
        return cached

    def _compute(self, history: tuple[int, ...], temperature: float, top_p: float) -> FloatArray:
        size = len(self.vocabulary)
        p = np.full(size, 1.0 / size)
        for length in range(len(history) + 1):
            counts = self._counts.get(history[len(history) - length :])
            if counts is None:
                break  # a longer history does not occur either
            p = p * self.smoothing
            p[list(counts)] += list(counts.values())
            p /= p.sum()
        with np.errstate(divide="ignore"):
            scores = np.log(p) + self._logits
        if temperature == 0.0:
            greedy = np.full(size, -np.inf)
            greedy[int(np.argmax(scores))] = 0.0
            return greedy
        scores = scores / temperature
        scores -= np.logaddexp.reduce(scores)
        return scores if top_p >= 1.0 else _cut(scores, top_p)

    def identity(self) -> dict[str, object]:
        """What the model was built from."""
        return {
            "model": "word-ngram", "corpus": self._digest, "order": self.order,
            "smoothing": self.smoothing, "boost": dict(sorted(self.boost.items())),
        }  # fmt: skip


def _merges(word: str) -> bool:
    return word.isspace() or word[0].isalnum() or word[0] == "'"


def _pair(line: str) -> tuple[list[str], list[str]]:
    question, tab, answer = line.partition("\t")
    if not tab:
        question, answer = "", line
    # An answer begins with a space: it continues the text of the question.
    return split_words(question), split_words(answer if answer[:1].isspace() else " " + answer)


def _cut(scores: FloatArray, top_p: float) -> FloatArray:
    """Keep the likeliest tokens up to total probability `top_p`, renormalised."""
    order = np.argsort(-scores, kind="stable")
    mass = np.cumsum(np.exp(scores[order]))
    keep = order[: int(np.searchsorted(mass, top_p)) + 1]
    out = np.full(len(scores), -np.inf)
    out[keep] = scores[keep] - np.logaddexp.reduce(scores[keep])
    return out
