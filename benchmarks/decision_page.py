"""The table and the figure of `docs/methods/decision.md`, from the record of `benchmarks.decision`.

``python -m benchmarks.decision_page`` draws ``docs/img/decision.png`` and rewrites the part of the
page between its two markers. It measures nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from benchmarks import results
from benchmarks.environments import ROOT

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["table"]

PAGE = ROOT / "docs" / "methods" / "decision.md"
PICTURE = ROOT / "docs" / "img" / "decision.png"
BEGIN, END = "<!-- decision table: begin -->", "<!-- decision table: end -->"
PANELS = {
    "Arena sample": "Real judge and labels (Arena sample)",
    "good judge": "Simulation, good judge",
}
Found = Mapping[str, Any]


def methods(stored: Mapping[str, Any]) -> list[Found]:
    """What the full-size record found of every method in every world."""
    rows = stored["modules"]["decision"]["full"]["rows"]
    return [row["found"] for row in rows if "found" in row]


def table(stored: Mapping[str, Any]) -> str:
    """One block of Markdown rows per world."""
    lines = [
        "| world | method | ship a gain | refuse no gain | refuse a loss | wrong at the bar "
        "| CPU per decision |",
        "|---|---|---|---|---|---|---|",
    ]
    world = ""
    for found in methods(stored):
        cases = [_needed(found, case) for case in ("gain", "no gain", "loss")]
        name = "" if found["world"] == world else found["world"]
        world = found["world"]
        wrong = f"{found['cases']['at the bar']['wrong']:.1%}"
        lines.append(f"| {name} | {found['method']} | {' | '.join(cases)} | {wrong} "
                     f"| {_time(found['milliseconds'])} |")  # fmt: skip
    return "\n".join(lines)


def _needed(found: Found, case: str) -> str:
    """Labels needed: with the bootstrap interval, or the mean and by when 80% are right."""
    o = found["cases"][case]
    most = found["sizes"][-1]
    value, low, high = (most if end is None else end for end in o["enough"])
    by = f"> {most}" if o["enough"][0] is None else f"{value:.0f}"
    if found["sequential"]:
        return f"mean {o['mean']:.0f}; 80% by {by}"
    if value <= found["sizes"][0]:
        return f"at most {value:.0f}"
    return f"{by} ({low:.0f} to {high:.0f})"


def _time(milliseconds: float) -> str:
    return f"{milliseconds:.1f} ms" if milliseconds < 10 else f"{milliseconds:.0f} ms"


def draw(stored: Mapping[str, Any]) -> None:
    """Labels needed to ship a gain, one panel per world."""
    from matplotlib.figure import Figure

    found = methods(stored)
    parts = {world: [f for f in found if f["world"] == world] for world in PANELS}
    figure = Figure(figsize=(7.2, 0.42 * sum(len(p) + 3.2 for p in parts.values())), dpi=150,
                    layout="constrained", facecolor="white")  # fmt: skip
    axes = figure.subplots(len(parts), 1, sharex=True,
                           height_ratios=[len(p) + 2.4 for p in parts.values()])  # fmt: skip
    for ax, (world, rows) in zip(axes, parts.items(), strict=True):
        _panel(ax, rows, PANELS[world])
    axes[-1].set_xlabel("human labels until the candidate is shipped correctly", fontsize=10)
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURE, metadata={"Software": None})


def _panel(ax: Axes, rows: Sequence[Found], title: str) -> None:
    """Fixed samples above, sequences below; ours in colour, wrong decisions at the right."""
    from cje.inference._plot import INK, MUTED, PALETTE, tidy

    tidy(ax)
    ax.grid(False, axis="y")
    place, ticks, names = 0.0, [], []
    most = rows[0]["sizes"][-1]
    for sequential, heading in (
        (False, "number of labels chosen in advance (the right one, known only afterwards)"),
        (True, "look as labels arrive, stop when decided"),
    ):
        ax.text(0.0, place - 0.05, heading, fontsize=8.5, color=INK, style="italic", va="center")
        place -= 1.0
        for found in (row for row in rows if row["sequential"] == sequential):
            o = found["cases"]["gain"]
            value = o["mean"] if sequential else (o["enough"][0] or most)
            colour = PALETTE[0] if found["ours"] else "#B8B8B8"
            ax.barh(place, value, height=0.66, color=colour)
            if not sequential:
                low, high = ((end or most) for end in o["enough"][1:])
                ax.plot([low, high], [place, place], color=INK, linewidth=1.2)
            wrong = found["cases"]["at the bar"]["wrong"]
            ax.text(max(value, 0 if sequential else high) + 12, place, f"{value:.0f}", fontsize=9,
                    color=INK, va="center", weight="bold")  # fmt: skip
            ax.text(1_110, place, f"{wrong:.1%}", fontsize=9, va="center", ha="right",
                    color=INK if wrong <= 0.065 else PALETTE[1])  # fmt: skip
            ticks.append(place)
            names.append(found["method"])
            place -= 1.0
        place -= 0.3
    ax.text(1_110, 0.0, "wrong decisions", fontsize=8.5, color=INK, ha="right", va="center")
    ax.set_yticks(ticks, names, fontsize=9)
    ax.tick_params(axis="y", length=0)
    ax.set_xlim(0, 1_120)
    ax.set_xticks([0, 200, 400, 600, 800])
    ax.set_ylim(place + 0.6, 0.7)
    ax.spines["left"].set_color(MUTED)
    ax.set_title(title, fontsize=11, loc="left", color=INK, weight="bold")


def main() -> None:
    """Write figure and table."""
    stored = results.load()
    text = table(stored)
    page = PAGE.read_text(encoding="utf-8")
    head, rest = page.split(BEGIN)
    PAGE.write_text(f"{head}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}", encoding="utf-8")
    draw(stored)
    print(text)


if __name__ == "__main__":
    main()
