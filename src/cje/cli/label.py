"""`cje label`: choose rows, show them blind on a local page, and keep every answer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cje.cli.options import Level
from cje.cli.reading import reads
from cje.errors import CJEError, require_extra
from cje.terminal import say

if TYPE_CHECKING:
    from socket import socket

    from cje.data.dataset import Dataset
    from cje.inference import GateRule
    from cje.label.study import Study, StudyOptions

__all__ = ["label"]

_SECONDS_PER_LABEL = 45.0  # assumed until a pace is measured
_FIXED = {"count", "design", "seed", "baseline", "candidate", "pairs", "scale", "rubric", "overlap",
          "third", "target"}  # fmt: skip


@reads("labels", "on", "label_map", "oracle_scale", "repeats", "skip_bad_rows")
def label(
    ctx: typer.Context,
    data: Annotated[
        Path, typer.Argument(help="File or folder of responses with their text, as for analyze.")
    ],
    labels: Annotated[
        Path, typer.Option(help="The labels file; an existing one is resumed.")
    ] = Path("labels.db"),
    count: Annotated[int, typer.Option(help="Labels to collect in all.")] = 100,
    baseline: Annotated[str | None, typer.Option(help="The policy in use.")] = None,
    candidate: Annotated[str | None, typer.Option(help="The policy to compare with it.")] = None,
    pairs: Annotated[
        bool, typer.Option("--pairs", help="Show two responses side by side: A, B, tie, both bad.")
    ] = False,
    design: Annotated[str, typer.Option(help="random, stratified, paired or active.")] = "random",
    by: Annotated[
        list[str] | None,
        typer.Option(help="Strata: judge_score, policy or a subgroup column."),
    ] = None,
    allocation: Annotated[
        str, typer.Option(help="Allocation of the stratified design: proportional or neyman.")
    ] = "proportional",
    scale: Annotated[
        str | None, typer.Option(help="1-5, pass/fail, 0-100, or words: 'bad, fair, good'.")
    ] = None,
    rubric: Annotated[
        Path | None, typer.Option(help="A Markdown file shown beside every item.")
    ] = None,
    overlap: Annotated[float, typer.Option(help="Share of the items that two raters label.")] = 0.0,
    third: Annotated[
        bool, typer.Option("--third", help="Send items on which two raters disagree to a third.")
    ] = False,
    target: Annotated[
        str, typer.Option(help="mean (the third rater does not count) or majority.")
    ] = "mean",
    seed: Annotated[int, typer.Option(help="Seed of the draw.")] = 0,
    margin: Annotated[
        float | None, typer.Option(help="The candidate passes if it is at most this much worse.")
    ] = None,
    min_gain: Annotated[
        float | None, typer.Option(help="The candidate passes if it is better by more than this.")
    ] = None,
    horizon: Annotated[
        bool,
        typer.Option(
            "--horizon",
            help="Never collect more than --count labels; narrows the anytime intervals.",
        ),
    ] = False,
    level: Level = 0.95,
    label_cost: Annotated[float, typer.Option(help="Cost of one label, any currency.")] = 0.0,
    host: Annotated[
        str,
        typer.Option(help="Address to listen on; other machines reach it unless it is loopback."),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 picks a free one.")] = 8675,
    allowed_host: Annotated[
        list[str] | None, typer.Option(help="Further host name(s) in the page's address.")
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Print how many labels are needed, and stop.")
    ] = False,
    detect: Annotated[
        float | None, typer.Option(help="With --plan: a difference to detect with 80% power.")
    ] = None,
    width: Annotated[
        float | None, typer.Option(help="With --plan: full width of each value's interval.")
    ] = None,
    *,
    reading: dict[str, Any],
) -> None:
    """Label responses on a page that your machine serves; policies and judge scores stay hidden.

    Stop with Ctrl-C at any time and start the same command again to resume. Then
    `cje analyze DATA --labels labels.db`.
    """
    from cje.data import read
    from cje.label.study import StudyOptions

    dataset = read(
        data,
        text=True,
        **reading,
        groups=_groups(by),
        require=(),
        min_rows=1,
    )
    if plan:
        _plan(dataset, labels, detect, width)
        return
    options = StudyOptions(
        count=count, design=design, seed=seed, baseline=baseline, candidate=candidate, pairs=pairs,
        by=tuple(by or ("judge_score",)), allocation=allocation, scale=scale,
        rubric="" if rubric is None else _rubric(rubric), overlap=overlap, third=third,
        target=target,
    )  # fmt: skip
    serving = _prepare(margin, min_gain, level, label_cost, host, port)
    study = _study(labels, dataset, options, _given(ctx), serving)
    _serve(study, labels, serving, horizon, allowed_host or [])


def _given(ctx: typer.Context) -> set[str]:
    """Names of the options of the study that were given on the command line."""
    sources = {name: ctx.get_parameter_source(name) for name in _FIXED}
    return {name for name, source in sources.items() if source and source.name == "COMMANDLINE"}


def _groups(by: list[str] | None) -> tuple[str, ...]:
    return tuple(name for name in by or () if name not in ("judge_score", "policy"))


def _rubric(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CJEError(f"cannot read the rubric: {error}", where=str(path)) from error


@dataclass(frozen=True)
class _Serving:
    """What the page needs besides the study; checked before a labels file is created."""

    gate: GateRule
    gated: bool
    level: float
    label_cost: float
    host: str
    listening: socket

    def check_policies(self, policies: tuple[str, ...]) -> None:
        """Raise if a gate was asked for and no two policies are named."""
        if self.gated and not policies:
            raise CJEError(
                "--margin and --min-gain need two policies to compare",
                hint="name them with --baseline and --candidate",
            )


def _prepare(
    margin: float | None, min_gain: float | None, level: float, cost: float, host: str, port: int
) -> _Serving:
    require_extra("uvicorn", "label", "the labelling page")
    require_extra("starlette", "label", "the labelling page")
    from cje.checks import check_level, check_number
    from cje.inference import GateRule
    from cje.label.listening import bind

    check_level(level)
    check_number("label_cost", cost, low=0.0)
    gate = GateRule(margin, min_gain)
    gated = margin is not None or min_gain is not None
    return _Serving(gate, gated, level, cost, host, bind(host, port))


def _study(
    labels: Path, data: Dataset, options: StudyOptions, given: set[str], serving: _Serving
) -> Study:
    from cje.label.study import Study

    if labels.exists():
        study = Study.open(labels, data)
        study.check_options(options, given)
        serving.check_policies(study.policies)
        say(f"resuming {labels} with the settings it was started with", err=True)
        return study
    serving.check_policies(options.policies)
    study = Study.create(labels, data, options)
    scale = study.store.scale
    assert scale is not None
    if not options.pairs:
        say(
            f"answers: {scale.describe()} (from: {study.store.meta['scale_origin']}); "
            "give --scale with a new labels file to change them",
            err=True,
        )
    return study


def _plan(data: Dataset, labels: Path, detect: float | None, width: float | None) -> None:
    from cje.analysis.label_plan import Goal
    from cje.analysis.pilot import plan_from_pilot
    from cje.data.label_store import attach_labels, is_label_store, read_label_store
    from cje.label.store import Store

    if (detect is None) == (width is None):
        raise CJEError("a plan needs a goal", hint="give --detect or --width")
    pace = None
    if is_label_store(labels):
        data = attach_labels(data, read_label_store(labels), str(labels))
        pace = Store.open(labels).pace()
    goal = Goal("power", detect) if detect is not None else Goal("value", float(width or 0.0))
    planned = plan_from_pilot(data, goal)
    total = planned.design.total_labels
    seconds, source = (_SECONDS_PER_LABEL, "assumed") if pace is None else (pace, "measured")
    say(
        f"labels: {total:,} in all ({planned.design.n_labels:,} for each of "
        f"{planned.design.n_policies} policies)\n"
        f"time: {total * seconds / 3600:.1f} hours at {seconds:.0f} s per label ({source})\n"
        f"start: --count {total}"
    )


def _serve(
    study: Study, labels: Path, serving: _Serving, horizon: bool, allowed: list[str]
) -> None:
    import secrets

    uvicorn = require_extra("uvicorn", "label", "the labelling page")
    from cje.inference.sequential import AnytimeRule
    from cje.label.app import make_app
    from cje.label.guard import is_loopback, served_names
    from cje.label.organiser import Organiser

    host, listening = serving.host, serving.listening
    tuned = max(int(study.store.meta["count"]), 200)
    rule = AnytimeRule(tuned, "spending" if horizon else "mixture", serving.level)
    organiser = Organiser(study, labels, serving.gate, rule, serving.label_cost)
    tokens = {"organiser": secrets.token_urlsafe(24)}
    if not is_loopback(host):
        tokens["rater"] = secrets.token_urlsafe(24)
    app = make_app(
        study, organiser, hosts=served_names(host) | set(allowed),
        rater_token=tokens.get("rater"), organiser_token=tokens["organiser"],
    )  # fmt: skip
    shown = f"[{host}]" if ":" in host else host
    base = f"http://{shown}:{listening.getsockname()[1]}"
    rater = f"{base}/enter?as=rater&token={tokens['rater']}" if "rater" in tokens else f"{base}/"
    say(f"raters:    {rater}")
    say(f"organiser: {base}/enter?as=organiser&token={tokens['organiser']}")
    config = uvicorn.Config(
        app, access_log=False, log_level="warning", server_header=False, lifespan="off",
        timeout_graceful_shutdown=2,
    )  # fmt: skip
    uvicorn.Server(config).run(sockets=[listening])
    study.store.close()
