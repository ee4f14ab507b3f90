"""The judge card as sentences, as tables and as a section of a report."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cje.diagnostics.judge_card import BiasEffect, JudgeCard, JudgeCards, Measure
from cje.findings import Finding
from cje.findings.labels import JUDGE_BIAS
from cje.report import Facts, FindingsPart, Forest, ForestRow, Part, Report, Section, Table
from cje.report.wording import fixed, isolated, p_cell, percent
from cje.results.decimals import decimals_for_widths
from cje.results.text import TextTable

__all__ = ["judge_page", "judge_section", "judge_sentences", "judge_tables"]

_SAVED, _SHARE = "labels saved", "R2"


def judge_sentences(cards: JudgeCards, name: Callable[[str], str] = str) -> list[str]:
    """Sentences on each judge, and on all together; `name` makes a name safe to show."""
    found = [_worth(card, name) for card in cards.cards]
    stacked = {measure.name: measure for measure in cards.stacked}
    if stacked:
        gain, saved = stacked["gain over the best judge"], stacked["stacked labels saved"]
        found.append(
            f"All {len(cards.cards)} judges in one calibration explain "
            f"{_percent(stacked['stacked R2'])} of the variance, {_points(gain)} more than the "
            f"best one alone, and save {_count(saved)} labels per version."
        )
    return found


def _worth(card: JudgeCard, name: Callable[[str], str]) -> str:
    saved, who, level = card.labels_saved, name(card.judge), f"{card.level:.0%} interval"
    share = f"It explains {_percent(card[_SHARE])} of the labels' variance, once calibrated."
    if saved.value < 0.5:
        return f"{who} saves no labels ({level} {_range(saved)}). {share}"
    have = card.labels_per_version
    return (
        f"{who} saves {_count(saved)} labels per version ({level} {_range(saved)}): {have:,.0f} "
        f"labels with it are as precise as {have + saved.value:,.0f} without. {share}"
    )


def _count(measure: Measure) -> str:
    return f"{max(measure.value, 0.0):,.0f}"


def _range(measure: Measure) -> str:
    if measure.low is None or measure.high is None:
        return "unknown"
    return f"{fixed(max(measure.low, 0.0), 0)} to {fixed(max(measure.high, 0.0), 0)}"


def _percent(measure: Measure) -> str:
    text = percent(measure.value)
    if measure.low is None or measure.high is None:
        return text
    return f"{text} ({percent(measure.low)} to {percent(measure.high)})"


def _points(measure: Measure) -> str:
    """A difference of shares, in percentage points."""
    text = f"{fixed(100 * measure.value, 0)} points"
    if measure.low is None or measure.high is None:
        return text
    return f"{text} ({fixed(100 * measure.low, 0)} to {fixed(100 * measure.high, 0)})"


# ---- tables ---------------------------------------------------------------------------------


def judge_tables(cards: JudgeCards) -> list[TextTable]:
    """The statistics of all judges side by side, then the factors of each judge's errors."""
    level = f"{cards.cards[0].level:.0%} intervals, clustered by prompt"
    foot = "\n".join(_absent(cards))
    columns = ("statistic", *(card.judge for card in cards.cards))
    found = [TextTable(f"agreement with the labels, {level}", columns, _rows(cards), foot)]
    for card in cards.cards:
        if card.biases:
            widths = [
                b.high - b.low for b in card.biases if b.low is not None and b.high is not None
            ]
            places = decimals_for_widths(widths)
            rows = tuple(
                (_who(b), _signed(b.effect, places), _limits(b, places), p_cell(b.p_adjusted),
                 f"{b.n:,}")
                for b in card.biases
            )  # fmt: skip
            title = f"errors of {card.judge}: calibrated score minus label, {level}"
            names = ("depends on", "effect", "interval", "p (Holm)", "labels")
            found.append(TextTable(title, names, rows, _EFFECT))
    return found


_EFFECT = (
    "Positive: the judge overrates. Of a number, the change for one standard deviation more; of a "
    "level, its mean error minus that of all."
)


def _rows(cards: JudgeCards) -> tuple[tuple[str, ...], ...]:
    own = [{m.name: m for m in (*card.measures, card.labels_saved)} for card in cards.cards]
    names = list(dict.fromkeys(name for measures in own for name in measures))
    names = [*(n for n in names if n != _SAVED), _SAVED]
    return tuple(
        (name, *(_cell(measures[name]) if name in measures else "" for measures in own))
        for name in names
    )


def _cell(measure: Measure) -> str:
    places = 0 if measure.name == _SAVED else 2
    text = fixed(measure.value, places)
    if measure.low is None or measure.high is None:
        return text
    return f"{text} ({fixed(measure.low, places)} to {fixed(measure.high, places)})"


def _absent(cards: JudgeCards) -> list[str]:
    """Reasons for missing statistics; those common to all judges once."""
    lines = []
    everywhere = [set(card.absent.items()) for card in cards.cards]
    common = set.intersection(*everywhere)
    for card in cards.cards:
        reasons: dict[str, list[str]] = {}
        for name, why in card.absent.items():
            if (name, why) not in common or card is cards.cards[0]:
                who = "" if (name, why) in common else f"{card.judge}: "
                reasons.setdefault(who + why, []).append(name)
        lines += [f"no {', '.join(names)}: {why}" for why, names in reasons.items()]
    return lines


def _who(bias: BiasEffect) -> str:
    return f"{bias.factor} {bias.level}".strip()


def _limits(bias: BiasEffect, places: int) -> str:
    if bias.low is None or bias.high is None:
        return "unknown"
    return f"{_signed(bias.low, places)} to {_signed(bias.high, places)}"


def _signed(value: float, places: int) -> str:
    text = fixed(value, places)
    return f"+{text}" if float(f"{value:.{places}f}") > 0.0 else text


# ---- parts of a page ------------------------------------------------------------------------


def judge_section(cards: JudgeCards) -> Section:
    """The section on the judge: labels saved, agreement, errors, and its identity."""
    tables = judge_tables(cards)
    lead = " ".join(judge_sentences(cards, lambda name: isolated(name, 48)))
    parts: list[Part] = [
        Table(
            "Agreement with the labels", tables[0].columns, tables[0].rows,
            frozenset(range(1, len(tables[0].columns))), tables[0].foot.replace("\n", "; "),
        )
    ]  # fmt: skip
    for card in cards.cards:
        if card.biases:
            parts.append(_errors(card, len(cards.cards) > 1))
    parts.append(Facts("What the card is about", tuple(_facts(cards))))
    return Section("How good is the judge?", tuple(parts), lead=lead)


def _errors(card: JudgeCard, several: bool) -> Forest:
    rows = tuple(
        ForestRow(_who(b), b.effect, _or_nan(b.low), _or_nan(b.high), mark=_mark(b), tone=_tone(b))
        for b in card.biases
    )
    title = f"Errors of {card.judge}" if several else "What its errors depend on"
    note = _EFFECT + f" Marked: p below {JUDGE_BIAS['p_value']:g} after adjustment (Holm)."
    return Forest(title, rows, "calibrated score minus label", reference=0.0, note=note)


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value


def _mark(bias: BiasEffect) -> str:
    if bias.p_adjusted >= JUDGE_BIAS["p_value"]:
        return ""
    return "overrates" if bias.effect > 0 else "underrates"


def _tone(bias: BiasEffect) -> str:
    return "care" if _mark(bias) else "plain"


def _facts(cards: JudgeCards) -> list[tuple[str, str]]:
    found = []
    for card in cards.cards:
        counts = f"{card.n_labels:,} labels of {card.n_prompts:,} prompts"
        found.append((card.judge, f"{counts}, {card.n_judged:,} judged responses"))
        found.append((f"{card.judge} is bound to", bound_to(card)))
    return found


def bound_to(card: JudgeCard) -> str:
    """The identity of the judge that a card describes."""
    own = card.identity
    if own is None:
        return "no judge: name it (cje judge --judge NAME --template FILE --rubric FILE)"
    parts = [f"judge {own.judge}"]
    parts += [
        f"{kind} {digest}" for kind, digest in (("template", own.template), ("rubric", own.rubric))
        if digest
    ]  # fmt: skip
    return f"{', '.join(parts)}; fingerprint {own.fingerprint}"


def judge_page(cards: JudgeCards, findings: Sequence[Finding] = ()) -> Report:
    """The judge card as a separate page."""
    section = judge_section(cards)
    parts: list[Part] = [FindingsPart("Findings", tuple(findings))] if findings else []
    return Report("Judge card", (*parts, section))
