"""Results of side-by-side comparisons: their sentence, tables and pictures.

All of them are made from ``diagnostics["pairwise"]``, so a saved result shows the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from cje.report import Forest, ForestRow, Part, Section, Table
from cje.report.wording import interval, number, p_cell, percent
from cje.results.text_table import TextTable

if TYPE_CHECKING:
    from cje.results.comparison import Comparison
    from cje.results.result import EstimationResult

__all__ = ["human_verdicts", "is_pairwise", "pair_parts", "pair_tables", "preference"]

_MOST = 60
_SHOWN_VERDICT = {"inconclusive": "no significant preference", "refused": "too few human verdicts"}


def is_pairwise(result: EstimationResult) -> bool:
    """Whether the values are win rates from comparisons."""
    return "comparisons" in result.metadata


def human_verdicts(result: EstimationResult) -> str:
    """``100 human verdicts``: the number behind the whole result."""
    n = int(result.metadata["comparisons"]["labels"])
    return f"{n:,} human verdict{'' if n == 1 else 's'}"


def preference(
    result: EstimationResult, pair: Comparison, name: Callable[[str], str] = str
) -> str | None:
    """The comparison of two versions as a share of wins; None for other results."""
    if not is_pairwise(result) or len(result.policies) != 2 or pair.verdict == "non-inferior":
        return None
    a, b = name(pair.a), name(pair.b)
    row = next((row for row in result.rows() if row["name"] == pair.a), None)
    if row is None or row["estimate"] is None:
        return None
    shares = f"{percent(row['estimate'])} of comparisons"
    limits = f"({result.level:.0%} interval {percent(row['low'])} to {percent(row['high'])})"
    style = result.metadata["quantity"].partition(" at equal ")[2]
    tail = f"{f' at equal {style}' if style else ''}, on {human_verdicts(result)}."
    if pair.verdict == "inconclusive":
        return f"No significant preference: {a} is preferred to {b} in {shares} {limits}{tail}"
    only = "only " if pair.verdict == "worse" else ""
    return f"{a} is preferred to {b} in {only}{shares} {limits}{tail}"


# ---- text ---------------------------------------------------------------------------------------


def pair_tables(result: EstimationResult) -> list[TextTable]:
    """Head to head, ranking and style as text; two versions need only the style."""
    found = _details(result)
    if not found:
        return []
    tables = []
    if len(result.policies) > 2:
        tables += [_head_to_head_text(found, result.level), _ranking_text(found, result.level)]
    style = found.get("style") or ()
    if style:
        rows = tuple((s["covariate"], number(s["coefficient"]), _limits(s)) for s in style)
        title = "style: change in the log-odds of a win per unit of relative difference"
        tables.append(TextTable(title, ("covariate", "coefficient", "interval"), rows))
    return tables


def _head_to_head_text(found: Mapping[str, Any], level: float) -> TextTable:
    rows = []
    for pair in found["pairs"]:
        numbers: tuple[str, ...] = ("", "", "")
        if pair["win_rate"] is not None:
            numbers = (percent(pair["win_rate"]), _shares(pair), p_cell(pair["p_adjusted"]))
        counts = (f"{pair['comparisons']:,}", f"{pair['human_verdicts']:,}")
        rows.append((f"{pair['a']} over {pair['b']}", *numbers, *counts, _verdict(pair)))
    return TextTable(
        f"head to head, {level:.0%} intervals; p and verdict against 50%, adjusted (Holm)",
        ("pair", "wins", "interval", "p (Holm)", "comparisons", "human verdicts", "verdict"),
        tuple(rows),
    )


def _ranking_text(found: Mapping[str, Any], level: float) -> TextTable:
    ranking = found.get("ranking")
    columns = ("version", "rank", "ranks", "log-odds", "interval", "Elo")
    title = f"ranking (Bradley-Terry), {level:.0%} intervals"
    if not ranking:
        return TextTable(title, columns, (), f"no ranking: {found['ranking_reason']}")
    rows = tuple(
        (r["policy"], str(r["rank"]), _ranks(r), f"{r['strength']:+.2f}",
         f"{r['low']:+.2f} to {r['high']:+.2f}", f"{r['elo']:.0f}")
        for r in ranking
    )  # fmt: skip
    return TextTable(title, columns, rows, "ranks: those that the joint intervals leave open")


# ---- report -------------------------------------------------------------------------------------


def pair_parts(result: EstimationResult) -> tuple[Part, ...]:
    """Head to head, ranking, win probabilities and style as parts of the report."""
    found = _details(result)
    if not found:
        return ()
    parts: list[Part] = []
    if len(result.policies) > 2:
        parts += [_head_to_head(found, result.level), *_ranking(found, result.level)]
    style = found.get("style") or ()
    if style:
        rows = tuple(
            ForestRow(s["covariate"], s["coefficient"], s["low"], s["high"]) for s in style
        )
        parts.append(Forest("Style", rows, "change in log-odds per unit", reference=0.0))
    agreement = _agreement(found)
    return (*parts, *([agreement] if agreement else []))


def _head_to_head(found: Mapping[str, Any], level: float) -> Forest:
    shown = [pair for pair in found["pairs"] if pair["win_rate"] is not None]
    rows = tuple(
        ForestRow(
            f"{p['a']} over {p['b']}", p["win_rate"], p["low"], p["high"], mark=_verdict(p),
            tone={"better": "good", "worse": "bad"}.get(p["verdict"], "plain"),
        )
        for p in shown[:_MOST]
    )  # fmt: skip
    note = (
        f"Share of comparisons the first wins, ties counted half; lines are {level:.0%} intervals, "
        "verdicts are against one half and adjusted for the number of pairs (Holm)."
    )
    left = len(found["pairs"]) - len(shown)
    if left:
        note += f" {left} pairs have too few human verdicts."
    return Forest("Head to head", rows, "share of wins", reference=0.5, note=note)


def _ranking(found: Mapping[str, Any], level: float) -> list[Part]:
    ranking = found.get("ranking")
    if not ranking:
        reason = (("no ranking", found["ranking_reason"]),)
        return [Table("Ranking (Bradley-Terry)", ("", "reason"), reason)]
    rows = tuple(
        ForestRow(r["policy"], r["strength"], r["low"], r["high"], mark=f"rank {_ranks(r)}")
        for r in ranking[:_MOST]
    )
    note = (
        f"Log-odds relative to the mean version; lines are {level:.0%} intervals. Ranks are those "
        "that joint intervals of all differences leave open."
    )
    chances = tuple(
        (f"{c['a']} over {c['b']}", percent(c["probability"]),
         f"{percent(c['low'])} to {percent(c['high'])}")
        for c in found["win_probabilities"][:_MOST]
    )  # fmt: skip
    table = Table(
        "Win probabilities by the ranking", ("pair", "probability", f"{level:.0%} interval"),
        chances, frozenset({1, 2}), "Implied by the strengths, also for pairs without comparisons.",
    )  # fmt: skip
    return [Forest("Ranking (Bradley-Terry)", rows, "strength (log-odds)", 0.0, note=note), table]


def _agreement(found: Mapping[str, Any]) -> Part | None:
    """Agreement of the judge's verdicts with people's, and the advantage of being shown first."""
    rows = []
    agreement = found.get("agreement")
    if agreement:
        rows.append(("same verdict as people", percent(agreement["same_verdict"]),
                     f"{agreement['comparisons']:,} comparisons"))  # fmt: skip
        if agreement["same_verdict_without_ties"] is not None:
            rows.append(("the same, where neither says tie",
                         percent(agreement["same_verdict_without_ties"]), ""))  # fmt: skip
    for who, bias in found["position"].items():
        limits = f"{percent(bias['low'])} to {percent(bias['high'])}, {bias['source']}"
        rows.append((f"advantage of being shown first: {who}", percent(bias["bias"]), limits))
        if "same_verdict_in_both" in bias:
            rows.append(("same verdict in both orders",
                         percent(bias["same_verdict_in_both"]), ""))  # fmt: skip
    if not rows:
        return None
    table = Table("Verdicts", ("", "value", "interval, source"), tuple(rows), frozenset({1}))
    return Section("How the verdicts were given", (table,))


# ---- words --------------------------------------------------------------------------------------


def _details(result: EstimationResult) -> Mapping[str, Any]:
    found = result.diagnostics.get("pairwise") or {}
    return found if isinstance(found, Mapping) else {}


def _verdict(pair: Mapping[str, Any]) -> str:
    verdict = str(pair["verdict"])
    return _SHOWN_VERDICT.get(verdict, verdict)


def _ranks(row: Mapping[str, Any]) -> str:
    low, high = row["rank_low"], row["rank_high"]
    return str(low) if low == high else f"{low} to {high}"


def _limits(row: Mapping[str, Any]) -> str:
    return interval(row["low"], row["high"])


def _shares(row: Mapping[str, Any]) -> str:
    return f"{percent(row['low'])} to {percent(row['high'])}"
