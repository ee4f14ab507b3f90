"""The table and the figure of `docs/methods/decision.md`, from the record of `benchmarks.decision`.

``python -m benchmarks.decision_page`` draws ``docs/img/decision.png`` and rewrites the part of the
page between its two markers. It measures nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from benchmarks import results
from benchmarks.decision import MOST_WRONG
from benchmarks.environments import ROOT
from benchmarks.markers import replace_between

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["table"]

PAGE = ROOT / "docs" / "methods" / "decision.md"
LEAST = 30
PICTURE = ROOT / "docs" / "img" / "decision.png"
PANELS = {
    "Arena sample": "Arena sample, replayed",
    "good judge": "Simulation with a good judge",
}
HEADINGS = {
    False: "fixed sample, of the best size (known only afterwards)",
    True: "look as labels arrive, stop when decided (mean)",
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
        f"| with {LEAST} labels | CPU per decision |",
        "|---|---|---|---|---|---|---|---|",
    ]
    world = ""
    for found in methods(stored):
        cases = [_needed(found, case) for case in ("gain", "no gain", "loss")]
        name = "" if found["world"] == world else found["world"]
        world = found["world"]
        wrong = f"{found['cases']['at the bar']['wrong']:.1%} | {_with_least_labels(found)}"
        lines.append(f"| {name} | {found['method']} | {' | '.join(cases)} | {wrong} "
                     f"| {_time(found['milliseconds'])} |")  # fmt: skip
    return "\n".join(lines)


def _with_least_labels(found: Found) -> str:
    """Wrong decisions at the bar of a fixed sample of the smallest size."""
    if found["sequential"] or found["sizes"][0] != LEAST:
        return ""
    return f"{found['wrong_by_size'][0]:.1%}"


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

    from cje.inference._plot import INK

    found = methods(stored)
    parts = {world: [f for f in found if f["world"] == world] for world in PANELS}
    parts = {world: rows for world, rows in parts.items() if rows}
    heights = [len(rows) + 2.9 for rows in parts.values()]
    figure = Figure(figsize=(6.4, 0.34 * sum(heights) + 1.3), dpi=160, layout="constrained",
                    facecolor="white")  # fmt: skip
    axes = figure.subplots(len(parts), 1, sharex=True, height_ratios=heights, squeeze=False)[:, 0]
    for ax, (world, rows) in zip(axes, parts.items(), strict=True):
        _panel(ax, rows, PANELS[world])
    figure.suptitle("Human labels until a better candidate is shipped", fontsize=13, color=INK,
                    weight="bold", x=0.01, ha="left")  # fmt: skip
    figure.supxlabel(
        "True gain 0.10; to ship, it must exceed 0.05 (scale 0 to 1). Line: 95% interval.\n"
        "Wrong: share that decides where the gain is exactly 0.05, so that any decision is wrong;\n"
        "5% is allowed.",
        fontsize=8.5, color=INK, x=0.01, ha="left",
    )  # fmt: skip
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURE, metadata={"Software": None})


def _panel(ax: Axes, rows: Sequence[Found], title: str) -> None:
    """Fixed samples above, sequences below; ours in colour, wrong decisions at the right."""
    from cje.inference._plot import INK, PALETTE, tidy

    tidy(ax)
    ax.grid(False, axis="y")
    ax.spines["left"].set_visible(False)
    most, right = rows[0]["sizes"][-1], 1_130
    place, ticks, names = 0.0, [], []
    for sequential, heading in HEADINGS.items():
        ax.annotate(heading, (0.0, place), xytext=(-138, 0), textcoords="offset points",
                    fontsize=9, color=INK, style="italic", va="center")  # fmt: skip
        for found in (row for row in rows if row["sequential"] == sequential):
            place -= 1.0
            value, low, high = _bar(found["cases"]["gain"], sequential, most)
            ours = found["ours"]
            ax.barh(place, value, height=0.68, color=PALETTE[0] if ours else "#BDBDBD")
            ax.plot([low, high], [place, place], color=INK, linewidth=1.2)
            wrong = found["cases"]["at the bar"]["wrong"]
            ax.text(high + 14, place, f"{value:.0f}", fontsize=10, color=INK, va="center",
                    weight="bold" if ours else "normal")  # fmt: skip
            ax.text(right, place, f"{wrong:.1%}", fontsize=9.5, va="center", ha="right",
                    color=INK if wrong <= MOST_WRONG else PALETTE[1],
                    weight="normal" if wrong <= MOST_WRONG else "bold")  # fmt: skip
            ticks.append(place)
            names.append(found["method"])
        place -= 1.2
    ax.text(right, 0.0, "wrong", fontsize=9, color=INK, ha="right", va="center", style="italic")
    ax.set_yticks(ticks, names, fontsize=9.5)
    ax.tick_params(axis="y", length=0)
    ax.set_xlim(0, right + 5)
    ax.set_xticks([0, 200, 400, 600, 800])
    ax.set_ylim(place + 0.7, 0.7)
    ax.set_title(title, fontsize=10.5, loc="left", color=INK, weight="bold", x=-0.42)


def _bar(o: Mapping[str, Any], sequential: bool, most: float) -> tuple[float, float, float]:
    """Length and interval: of a sequence the mean, which its many repetitions pin down."""
    if sequential:
        return o["mean"], o["mean"], o["mean"]
    value, low, high = (most if end is None else end for end in o["enough"])
    return value, low, high


def main() -> None:
    """Write figure and table."""
    stored = results.load()
    text = table(stored)
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(replace_between(page, "decision table", text), encoding="utf-8")
    draw(stored)
    print(text)


if __name__ == "__main__":
    main()
