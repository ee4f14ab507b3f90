"""The answer of a result: one sentence per candidate, on the label's scale."""

from __future__ import annotations

from collections.abc import Callable

from cje.inference import Interval, Severity
from cje.report.wording import p_value
from cje.results.comparison import Comparison
from cje.results.decimals import decimals_for
from cje.results.pairwise import human_verdicts, is_pairwise, preference
from cje.results.result import EstimationResult

__all__ = ["headline", "on_labels", "pair_sentence", "question", "unit"]

_MOST = 12


def question(result: EstimationResult) -> str:
    """The question that the result answers, with the baseline's name."""
    if len(result.policies) == 1:
        return f"How good is {result.policies[0]}?"
    others = [name for name in result.policies if name != result.baseline]
    who = others[0] if len(others) == 1 else "a candidate"
    return f"Is {who} better than {result.baseline}, by how much, and how sure is that?"


def headline(result: EstimationResult, most: int = _MOST) -> list[str]:
    """One sentence per candidate against the baseline; of a single policy, its value.

    If rows or labels were skipped, the first sentence reports how many.
    """
    return [*_skipped(result), *_answer(result, most)]


def _skipped(result: EstimationResult) -> list[str]:
    """The numbers of skipped rows and labels (`skip_bad_rows`), as a sentence."""
    counts = result.metadata.get("skipped", {})
    rows, labels = counts.get("rows", 0), counts.get("labels", 0)
    parts = []
    if rows:
        parts.append(f"{rows:,} invalid row{'' if rows == 1 else 's'}")
    if labels:
        kept = "its row" if labels == 1 else "their rows"
        parts.append(f"{labels:,} unreadable label{'' if labels == 1 else 's'} ({kept} kept)")
    return [f"Skipped {' and '.join(parts)}."] if parts else []


def _answer(result: EstimationResult, most: int) -> list[str]:
    whole = [f for f in result.findings if f.severity is Severity.REFUSE and f.subject is None]
    if whole:
        return [f"No result here supports a decision: {_end(whole[0].message)}."]
    if len(result.policies) == 1:
        return [_value(result, result.policies[0])]
    pairs = result.versus_baseline()
    found = [pair_sentence(result, pair) for pair in pairs[:most]]
    if len(pairs) > most:
        found.append(f"{len(pairs) - most} more candidates are in the tables.")
    return found


def unit(result: EstimationResult) -> str:
    """``" points"`` on a scale wider than one; a share or a rate has no unit."""
    low, high = result.metadata.get("scale", (0.0, 1.0))
    return " points" if high - low > 1.0 else ""


def on_labels(result: EstimationResult, *names: str) -> str:
    """``on 150 labels``: the number of labels of the named policies, or their source."""
    if is_pairwise(result):
        return f", on {human_verdicts(result)}"
    counts = result.metadata.get("n_labels", {})
    if result.metadata.get("off_policy"):
        total = max((counts.get(name) or 0 for name in names), default=0)
    else:
        total = sum(counts.get(name) or 0 for name in names)
    if not total:
        return ""
    return f", on {total:,} label{'' if total == 1 else 's'}"


def pair_sentence(
    result: EstimationResult, pair: Comparison, name: Callable[[str], str] = str
) -> str:
    """One comparison as a sentence: its verdict, size, interval, labels and conditions.

    `name` makes a version's name safe for the place where the sentence is shown.
    """
    a, b = name(pair.a), name(pair.b)
    if pair.refused is not None:
        refused = result.refused()
        if pair.a in refused:
            return f"The value of {a} cannot be reported: {_end(refused[pair.a])}."
        return f"{a} cannot be compared: the value of {b} is refused: {_end(refused[pair.b])}."
    shared = preference(result, pair, name)
    if shared is not None:
        return shared
    verdict, points = pair.verdict, unit(result)
    tail = f"{on_labels(result, pair.a, pair.b)}{_condition(result, pair, name)}."
    if verdict in ("better", "worse"):
        shown = pair if verdict == "better" else pair.reversed()
        size, limits = _difference(shown, sign=False)
        return f"{a} is {verdict} than {b} by {size}{points} ({limits}){tail}"
    size, limits = _difference(pair, sign=True)
    body = f"{size}{points} ({limits}{_adjusted(pair)})"
    if verdict == "non-inferior":
        return f"{a} is at most {pair.margin:g}{points} worse than {b}: {body}{tail}"
    return f"No significant difference between {a} and {b}: {body}{tail}"


def _difference(pair: Comparison, *, sign: bool) -> tuple[str, str]:
    """``0.41``, and ``95% interval 0.20 to 0.62``."""
    form = f"{'+' if sign else ''}.{decimals_for(pair.interval)}f"
    low, high = pair.interval
    ends = f"{_plain(low, form)} to {_plain(high, form)}"
    return _plain(pair.difference, form), f"{pair.interval.level:.0%} interval {ends}"


def _adjusted(pair: Comparison) -> str:
    """The adjusted p-value if the interval excludes zero and the test does not reject."""
    if pair.p_adjusted is None or 0.0 in pair.interval:
        return ""
    return f"; {p_value(pair.p_adjusted)} after adjustment for the number of comparisons"


def _condition(result: EstimationResult, pair: Comparison, name: Callable[[str], str]) -> str:
    borrowed = [name(n) for n in (pair.a, pair.b) if n in result.metadata.get("borrowed", ())]
    if not borrowed:
        return ""
    return f", if the judge errs on {' and '.join(borrowed)} as on the labelled versions"


def _value(result: EstimationResult, name: str) -> str:
    refused = result.refused()
    if name in refused:
        return f"The value of {name} cannot be reported: {_end(refused[name])}."
    row = result.rows()[0]
    limits = Interval(row["low"], row["high"], result.level)
    form = f".{decimals_for(limits)}f"
    quantity = result.metadata.get("quantity", "mean label")
    return (
        f"{name} has a {quantity} of {_plain(row['estimate'], form)} ({result.level:.0%} interval "
        f"{_plain(row['low'], form)} to {_plain(row['high'], form)}){on_labels(result, name)}."
    )


def _plain(value: float, form: str) -> str:
    text = format(value, form)
    return text.lstrip("+-") if float(text) == 0.0 else text


def _end(text: str) -> str:
    return text.rstrip(".")
