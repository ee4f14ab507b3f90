"""The parts of an `EstimationResult`'s report, in reading order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cje.diagnostics.judge_card import JudgeCards
from cje.report import (
    Answer,
    FindingsPart,
    Forest,
    ForestRow,
    MatrixCell,
    MatrixPart,
    Part,
    Report,
    Section,
    Table,
)
from cje.report.wording import interval, number, p_value, percent, signed
from cje.results.comparison import Comparison
from cje.results.pairwise import human_verdicts, is_pairwise, pair_parts
from cje.results.report_answer import Pairs, Rows, answer_of
from cje.results.report_calibration import calibration_part, residuals_part
from cje.results.report_evidence import MOST_ROWS, sample_table, weight_histograms
from cje.results.report_facts import facts_part
from cje.results.report_judge import judge_section
from cje.results.report_pairs import pairs_part
from cje.results.result import EstimationResult

__all__ = [
    "estimates_part",
    "make_note",
    "make_report",
    "others_part",
    "report_parts",
    "with_decision",
]

TITLE = "Which version is better?"
_MOST_IN_MATRIX = 12
_TONE = {"better": "good", "non-inferior": "good", "worse": "bad"}


def make_report(
    result: EstimationResult, *, title: str = TITLE, extra: Sequence[Part] = ()
) -> Report:
    """The full report; `extra` parts come before the configuration."""
    pairs, rows = result.compare_all(), result.rows()
    *parts, last = _parts(result, pairs, rows)
    answer = answer_of(result, pairs, rows)
    return Report(title, (*parts, *extra, last), _subtitle(result), answer)


def with_decision(page: Report, sentences: Sequence[str], undecided: bool) -> Report:
    """The page with a gate's sentences at the start of its answer."""
    answer, head = page.answer or Answer(), tuple(sentences)
    if undecided:
        cannot, steps = (*head[:-1], *answer.cannot), (*head[-1:], *answer.next)
        return replace(page, answer=replace(answer, cannot=cannot, next=steps))
    return replace(page, answer=replace(answer, can=(*head, *answer.can)))


def make_note(result: EstimationResult) -> Report:
    """The short form for a notebook: answer, estimates, differences, findings."""
    pairs, rows = result.compare_all(), result.rows()
    parts: list[Part] = [estimates_part(result, rows)]
    if len(result.policies) > 1:
        parts.append(_matrix(result, pairs))
    parts.append(FindingsPart("Findings", result.all_findings()))
    answer = answer_of(result, pairs, rows)
    return Report(TITLE, tuple(parts), _subtitle(result), answer)


def others_part(results: Mapping[str, EstimationResult]) -> tuple[Part, ...]:
    """The estimates of several estimators side by side."""
    names = tuple(dict.fromkeys(name for result in results.values() for name in result.policies))
    rows = []
    for label, result in results.items():
        values = {row["policy"]: row for row in result.rows()}
        cells = [_value_text(values[n]) if n in values else "" for n in names[:_MOST_IN_MATRIX]]
        rows.append((label, *cells))
    shown = names[:_MOST_IN_MATRIX]
    numeric = frozenset(range(1, len(shown) + 1))
    return (Table("All estimators of the run", ("estimator", *shown), tuple(rows), numeric),)


def _value_text(row: Mapping[str, Any]) -> str:
    if row["refused"]:
        return f"refused: {row['reason']}"
    return f"{number(row['estimate'])} ({interval(row['low'], row['high'])})"


def report_parts(result: EstimationResult) -> tuple[Part, ...]:
    """All parts in reading order."""
    return _parts(result, result.compare_all(), result.rows())


def _parts(result: EstimationResult, pairs: Pairs, rows: Rows) -> tuple[Part, ...]:
    parts: list[Part | None] = [
        _versus(result),
        pairs_part(result),
        estimates_part(result, rows),
        _matrix(result, pairs) if len(result.policies) > 1 else None,
        *pair_parts(result),
        *(p for column, part in result.subgroups.items() for p in _subgroup(column, part)),
        FindingsPart("Findings", result.all_findings()),
        _judge(result),
        calibration_part(result),
        residuals_part(result),
        _weights(result),
        sample_table(result),
        facts_part(result),
    ]
    return tuple(part for part in parts if part is not None)


def _judge(result: EstimationResult) -> Part | None:
    """The section on the judge, if the analysis measured it."""
    found = result.diagnostics.get("judge_card")
    return None if found is None else judge_section(JudgeCards.from_dict(found))


def _subtitle(result: EstimationResult) -> str:
    quantity = result.metadata.get("quantity", "mean label")
    words = f"{result.estimator}: {quantity} per version, {result.level:.0%} intervals"
    if is_pairwise(result):
        words += f"; {result.metadata['comparisons']['rows']:,} comparisons"
        words += f", {result.influence.n_clusters:,} prompts" if result.influence.n_clusters else ""
        return f"{words}, {human_verdicts(result)}"
    rows, labels = result.metadata.get("n_rows", {}), result.metadata.get("n_labels", {})
    total = max if result.metadata.get("off_policy") else sum  # logged rows serve every target
    if rows:
        words += f"; {total(rows.values()):,} rows"
    if result.influence.n_clusters:
        words += f", {result.influence.n_clusters:,} prompts"
    if any(labels.values()):
        words += f", {total(labels.values()):,} labels"
    return words


# ---- estimates and differences --------------------------------------------------------------


def estimates_part(result: EstimationResult, table: Rows) -> Forest:
    """Policies with intervals, and the truth if it is known (``metadata["truth"]``)."""
    truth: Mapping[str, float] = result.metadata.get("truth") or {}
    several = len(table) > 1
    rows = [
        _forest_row(
            row,
            row["policy"],
            truth.get(row["policy"]),
            several and row["policy"] == result.baseline,
        )
        for row in table
    ]
    note = f"Lines are {result.level:.0%} intervals."
    if truth:
        note += " Upright bars mark the true value."
    if len(rows) > MOST_ROWS:
        note += f" The {MOST_ROWS} highest of {len(rows)} versions are shown."
        rows = sorted(rows, key=lambda row: -np.nan_to_num(row.value, nan=-np.inf))[:MOST_ROWS]
    return Forest("Estimates", tuple(rows), result.metadata.get("quantity", "value"), note=note)


def _forest_row(
    row: Mapping[str, Any], name: str, truth: float | None, baseline: bool
) -> ForestRow:
    if row["refused"]:
        return ForestRow.refused(name, row["reason"], truth)
    marks = ["baseline"] if baseline else []
    marks += ["borrowed"] if row["borrowed_calibration"] else []
    tone = "care" if row["borrowed_calibration"] else "plain"
    return ForestRow(name, row["estimate"], row["low"], row["high"], truth, ", ".join(marks), tone)


def _versus(result: EstimationResult, title: str = "") -> Forest | None:
    """Each other version minus the baseline, with the margin; of subgroups, within each level."""
    pairs = result.versus_baseline()
    if not pairs:
        return None
    rows, within = [], result.cells is not None
    for c in pairs[:MOST_ROWS]:
        if c.refused is not None:
            rows.append(ForestRow.refused(c.a, c.refused))
            continue
        limits = c.adjusted_interval if within else c.interval
        assert limits is not None
        verdict = _verdict(c)
        tone, hint = _TONE.get(verdict, "plain"), _hint(result, c, c.p_adjusted or c.p_value)
        low, high = limits
        rows.append(ForestRow(c.a, c.difference, low, high, None, verdict, tone, hint=hint))
    note = "Lines are intervals of one comparison alone; the words beside the names are adjusted."
    if within:
        note = "Intervals hold for all comparisons of this part at once, as the words do."
    zone, zone_name = _zone(result)
    return Forest(
        title or f"Difference from {result.baseline}",
        tuple(rows),
        f"candidate minus {result.baseline}",
        reference=0.0,
        zone=zone,
        zone_name=zone_name,
        note=note,
    )


def _zone(result: EstimationResult) -> tuple[tuple[float, float] | None, str]:
    """The zone of the non-inferiority margin, or below the gain that a gate requires."""
    margin, gain = result.metadata.get("margin"), result.metadata.get("min_gain")
    if gain:
        return (0.0, float(gain)), f"below the smallest gain required, {gain:g}"
    if margin:
        return (-float(margin), float(margin)), f"margin: at most {margin:g} worse or better"
    return None, ""


def _matrix(result: EstimationResult, pairs: Pairs) -> MatrixPart:
    borrowed = set(result.metadata.get("borrowed", ()))
    names = result.policies
    note = (
        f"Row minus column on shared prompts. The {result.level:.0%} interval is one pair's alone; "
        "p-values and verdicts are adjusted for the number of pairs (Holm)."
    )
    if result.refused():
        note += " A refused value has no comparison."
    if borrowed:
        note += " Borrowed: right if the judge errs on it as on the labelled policies."
    if len(names) > _MOST_IN_MATRIX:
        order = np.argsort(-result.estimates, kind="stable")[:_MOST_IN_MATRIX]
        names = tuple(result.policies[k] for k in order.tolist())
        note += f" The {_MOST_IN_MATRIX} highest of {len(result.policies)} versions are shown."
    place = {name: k for k, name in enumerate(names)}
    cells: dict[tuple[int, int], MatrixCell] = {}
    for c, p in pairs:
        if c.a not in place or c.b not in place:
            continue
        i, j, (low, high) = place[c.a], place[c.b], c.interval
        if c.refused is not None:
            cell = MatrixCell(None, None, None, None, "refused", hint=c.refused)
            cells[i, j] = cells[j, i] = cell
            continue
        verdict, back = _verdict(c), _verdict(c.reversed())
        mark = ", borrowed" if {c.a, c.b} & borrowed and verdict in _TONE else ""
        tone, back_tone = _TONE.get(verdict, "plain"), _TONE.get(back, "plain")
        hint = _hint(result, c, p)
        cells[i, j] = MatrixCell(c.difference, low, high, p, verdict + mark, tone, hint)
        cells[j, i] = MatrixCell(-c.difference, -high, -low, p, back + mark, back_tone, hint)
    return MatrixPart("Paired differences", names, cells, note)


def _verdict(c: Comparison) -> str:
    """The verdict adjusted for the number of pairs, as the report prints it."""
    return "no significant difference" if c.verdict == "inconclusive" else c.verdict


def _hint(result: EstimationResult, c: Comparison, p: float) -> str:
    """Explanation of a verdict that differs from the pair's own interval."""
    n = sum(pair.refused is None for pair, _ in result.compare_all())
    if n < 2:
        return f"One pair, nothing to adjust: {p_value(p)}."
    if result.cells is not None:
        return (
            f"Adjusted for {n} pairs (Holm): {p_value(c.p_value)} for this pair alone, "
            f"{p_value(p)} after adjustment. Looking at many subgroups, some differ by chance."
        )
    return (
        f"Adjusted for {n} pairs (Holm): {p_value(c.p_value)} for this pair alone, "
        f"{p_value(p)} after adjustment. The interval is this pair's alone."
    )


def _subgroup(column: str, part: EstimationResult) -> tuple[Part, ...]:
    """Every policy within every level, and the differences between policies within a level."""
    rows = tuple(_forest_row(row, row["name"], None, False) for row in part.rows())
    note = f"Jointly valid {part.level:.0%} intervals: all hold at once."
    if len(rows) > MOST_ROWS:
        note += f" {MOST_ROWS} of {len(rows)} are shown."
    quantity = part.metadata.get("quantity", "value")
    forest = Forest(f"By {column}", rows[:MOST_ROWS], quantity, note=note)
    pairs = part.differences()
    versus = _versus(part, f"By {column}: difference from {part.baseline}")
    if versus is None:
        return (forest,)
    return (versus, forest, _within(column, part, pairs))


def _within(column: str, part: EstimationResult, pairs: Sequence[Mapping[str, Any]]) -> Table:
    rows: list[tuple[str, ...]] = []
    for pair in pairs[:MOST_ROWS]:
        who = f"{pair['policy_a']} - {pair['policy_b']}"
        if pair["refused"] is not None:
            rows.append((pair["group"], who, "", "", "", "refused"))
            continue
        limits = pair["adjusted_interval"]
        verdict = pair["verdict"]
        verdict = "no significant difference" if verdict == "inconclusive" else verdict
        rows.append(
            (
                pair["group"],
                who,
                signed(pair["difference"]),
                interval(limits["low"], limits["high"], sign=True),
                p_value(pair["p_adjusted"]),
                verdict,
            )
        )
    note = (
        f"Jointly valid {part.level:.0%} intervals; p-values and verdicts are adjusted for "
        f"{len(pairs)} pairs (Holm)."
    )
    if len(pairs) > MOST_ROWS:
        note += f" {MOST_ROWS} of them are shown."
    titles = (column, "difference", "value", "interval", "p", "verdict")
    title = f"By {column}: differences within each level"
    return Table(title, titles, tuple(rows), frozenset({2, 3, 4}), note)


# ---- weights --------------------------------------------------------------------------------


def _weights(result: EstimationResult) -> Part | None:
    found: Mapping[str, Any] = result.diagnostics.get("weights") or {}
    if not found:
        return None
    after = _projected_ess(result)
    titles = ["policy", "effective sample size", "of the rows"]
    if after:
        titles.append("after projection")
    titles += ["effective labels", "top 5% carry", "heaviest row", "tail index", "mean weight"]
    rows = []
    for name, w in list(found.items())[:MOST_ROWS]:
        cells = [name, f"{w['ess']:,.0f}", percent(w["ess_fraction"])]
        if after:
            cells.append(percent(after[name]) if name in after else "")
        cells += [
            f"{w['labelled_ess']:,.0f}" if "labelled_ess" in w else "",
            percent(w["top5_share"]),
            percent(w["max_share"]),
            "none" if w["tail_index"] is None else number(w["tail_index"], 3),
            number(w["mean_weight"], 3),
        ]
        rows.append(tuple(cells))
    table = Table(
        "How far the log reaches each policy",
        tuple(titles),
        tuple(rows),
        frozenset(range(1, len(titles))),
        "Gates read the raw weights: a projection can make any weights look even. A tail index "
        "below 2 means weights without a finite variance.",
    )
    return Section("Weights and overlap", (*weight_histograms(result), table))


def _projected_ess(result: EstimationResult) -> Mapping[str, float]:
    """Effective sample size of the projected weights, as a share of the rows."""
    known = result.diagnostics.get("calibrated_ess_fraction")
    if known:
        return dict(known)
    evidence = result.evidence
    if evidence is None or evidence.projected is None:
        return {}
    squares = np.einsum("nk,nk->k", evidence.projected, evidence.projected)
    return dict(zip(result.policies, (len(evidence.dataset) / squares).tolist(), strict=True))
