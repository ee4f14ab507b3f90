"""`analyze_dataset`: from files or frames to policy values, differences and findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from cje._deprecation import renamed_arguments
from cje.analysis.anytime import TUNED_AT, with_anytime
from cje.analysis.estimator_options import check_options
from cje.analysis.judge_report import has_card, judge_report
from cje.analysis.judges import assess_judges, judge_covariates
from cje.analysis.pairs import check_pairwise
from cje.analysis.reading import Inputs, read_inputs
from cje.analysis.skips import skip_findings
from cje.analysis.subgroups import subgroup_results
from cje.checks import check_level
from cje.data.comparisons import Comparisons
from cje.data.dataset import Dataset
from cje.diagnostics.transport import check_transport_margin
from cje.errors import CJEError
from cje.estimators.registry import EstimatorEntry, find_estimator
from cje.hints import by_interface
from cje.inference.sequential import AnytimeRule
from cje.results.baseline import choose_baseline
from cje.results.comparison import check_margin
from cje.results.result import EstimationResult

__all__ = ["analyze_dataset"]


@renamed_arguments(logged_data_path="logged_data", calibration_data_path="calibration_data")
def analyze_dataset(
    fresh_draws_data: Any = None,
    *,
    fresh_draws_dir: str | Path | None = None,
    logged_data: Any = None,
    calibration_data: Any = None,
    estimator: str = "auto",
    by: str | Sequence[str] = (),
    baseline: str | None = None,
    margin: float | None = None,
    win_rate_against: str | None = None,
    covariates: Sequence[str] | Literal["auto"] = (),
    text_model: str | Path | None = None,
    level: float = 0.95,
    seed: int = 42,
    fields: Mapping[str, Any] | None = None,
    labels: Any = None,
    on: str | Sequence[str] | None = None,
    judge_scale: Any = None,
    oracle_scale: Any = None,
    repeats: Literal["error", "draws"] = "error",
    skip_bad_rows: bool = False,
    label_map: Mapping[str, float | None] | None = None,
    sheet: str | None = None,
    wide: str | Sequence[str] | None = None,
    text: bool = False,
    estimator_options: Mapping[str, Any] | None = None,
    anytime: bool = False,
    planned_labels: int | None = None,
    judge_card: bool = False,
    transport_margin: float | None = None,
) -> EstimationResult:
    """Estimate each policy's value and paired differences; report what the data cannot support.

    Parameters
    ----------
    fresh_draws_data : path, data frame, list of rows, dict policy -> rows, dict of columns, Dataset
        Judged responses of the policies, labels on a slice.
    fresh_draws_dir : path, optional
        A folder with one file per policy, in place of `fresh_draws_data`.
    logged_data : path, frame or Dataset, optional
        Logged rows with log-probs under the target policies, for the off-policy estimators.
    calibration_data : path, frame or Dataset, optional
        Further labelled rows to calibrate the judge on; they belong to no policy of interest.
    estimator : str
        A name from `cje.estimators.REGISTRY`. ``"auto"``: ``direct`` with fresh draws (``naive``
        where nothing is labelled), ``pairwise`` with comparisons of two responses per row (or the
        answers of ``cje label --pairs``), ``calibrated-ips`` with logged data alone, and ``tr-cpo``
        with both if only logged rows are labelled and the log has the log-probs of every version:
        the importance weights then replace labels of the versions themselves.
    by : str or sequence of str
        Subgroup columns to answer within. ``result.subgroups[column]`` has jointly valid intervals
        for every policy and level, and paired differences within each level.
    baseline : str, optional
        Version that the others are compared with; tables begin with it. By default the version with
        such a name (``prod``, ``baseline``, ...), otherwise the first one; the result states which.
    margin : float, optional
        Non-inferiority margin, on the label's scale, that `compare_policies` tests against.
    win_rate_against : str, optional
        The judge was comparative: scores and labels are 1 where the response beat this
        opponent's, 0 where it lost, 1/2 for a tie. Values are then win rates.
    covariates : sequence of str, or "auto"
        Columns, such as the response length, that help to predict the label. ``"auto"`` (direct
        estimator only) uses length and format of the responses where they help. For comparisons:
        differences in style (``length``, ``markdown``) to control for.
    text_model : path, optional
        A folder with a model2vec model (extra ``text``): ``covariates="auto"`` then also tries what
        the responses say, by their embeddings. Nothing is downloaded.
    level : float
        Confidence level.
    seed : int
        Seed of the folds.
    fields, labels, on, judge_scale, oracle_scale, repeats, skip_bad_rows, label_map, sheet, wide
        As in `cje.data.read`.
    text : bool
        Keep prompts and responses, so that a report can show samples.
    estimator_options : mapping, optional
        Further options of the estimator's constructor; an unknown one is an error that lists them.
    anytime : bool
        Add intervals that hold however often one looks while labels come in:
        ``result.metadata["anytime"]``.
    planned_labels : int, optional
        Labels at which the anytime intervals should be narrowest (500 by default).
    judge_card : bool
        Also measure the judge (`cje.analysis.judge_report`) if there are enough labels: the report
        then has a section on it, and ``result.diagnostics["judge_card"]`` has the numbers.
    transport_margin : float, optional
        Largest acceptable difference, on the label's scale, between a version's own labels and a
        calibration learnt from the others; the transport audits are graded against it. Direct
        estimator only.

    Examples
    --------
    >>> import cje.simulate as simulate
    >>> data = simulate.policies_on_shared_prompts(400, 2, 80, seed=3).dataset
    >>> result = analyze_dataset(data)
    >>> result.metadata["target_policies"], len(result.ci())
    (['base', 'candidate_1'], 2)
    >>> result.compare_policies("candidate_1", "base").verdict
    'better'
    """
    columns = [by] if isinstance(by, str) else list(by)
    level, margin = check_level(level), check_margin(margin)
    if estimator != "auto":
        find_estimator(estimator)  # before anything is read
    if transport_margin is not None:
        check_transport_margin(transport_margin)
        estimator_options = {**(estimator_options or {}), "transport_margin": transport_margin}
    if text_model is not None:
        estimator_options = {**(estimator_options or {}), "text_model": text_model}
    auto = covariates == "auto"
    inputs = read_inputs(
        fresh_draws_data,
        fresh_draws_dir,
        logged_data,
        calibration_data,
        estimator=estimator,
        groups=columns,
        reading={
            "fields": fields,
            "judge_scale": judge_scale,
            "oracle_scale": oracle_scale,
            "repeats": repeats,
            "skip_bad_rows": skip_bad_rows,
            "label_map": label_map,
            "sheet": sheet,
            "wide": wide,
            "covariates": () if auto else tuple(covariates),
            "text": text or auto,
        },
        joined={"labels": labels, "on": on},
    )
    entry = _choose(estimator, inputs)
    options = _options(entry, inputs, estimator_options or {}, level, seed, covariates)
    result = _run(entry, inputs, options, columns)
    result = _described(result, inputs, baseline, margin, seed, win_rate_against)
    if type(fresh_draws_data).__module__.partition(".")[0] == "pandas":
        result = result.with_(metadata={"frame": "pandas"})
    if judge_card:
        result = _with_judge_card(result, inputs, seed)
    return _with_labelling(result, inputs, anytime, planned_labels)


def _options(
    entry: EstimatorEntry,
    inputs: Inputs,
    given: Mapping[str, Any],
    level: float,
    seed: int,
    covariates: Sequence[str] | Literal["auto"],
) -> dict[str, Any]:
    """The estimator's arguments: those given, checked, and those every analysis sets."""
    targets = () if inputs.logged is None else inputs.logged.target_policies
    options = {"level": level, **check_options(entry, given, targets)}
    if entry.name == "naive":
        return options
    options.setdefault("seed", seed)
    if covariates == "auto":
        if entry.name != "direct":
            raise CJEError(
                f"covariates='auto' needs the direct estimator, not '{entry.name}'",
                hint="name the columns: "
                + by_interface("covariates=('response_length',)", "--covariate COLUMN"),
            )
        options.setdefault("covariates", "auto")
    else:
        judges = judge_covariates((*_used(entry, inputs), *inputs.labelled_elsewhere()))
        options.setdefault("covariates", (*covariates, *judges))
    return options


def _described(
    result: EstimationResult,
    inputs: Inputs,
    baseline: str | None,
    margin: float | None,
    seed: int,
    win_rate_against: str | None,
) -> EstimationResult:
    """The result with its baseline, margin and quantity, the judges, and how the data were read."""
    base, how = choose_baseline(result.policies, baseline)
    assessed = assess_judges(inputs.fresh, seed) if isinstance(inputs.fresh, Dataset) else {}
    if assessed:
        result = result.with_(diagnostics={"judges": assessed})
    extra: dict[str, Any] = {"margin": margin, "seed": seed, "baseline": base}
    if how:
        extra["baseline_note"] = how
    if skipped := inputs.skipped():
        extra["skipped"] = skipped
    within: dict[str, Any] = {"margin": margin, "baseline": base}
    if win_rate_against is not None:
        if isinstance(inputs.fresh, Comparisons):
            raise CJEError(
                "win_rate_against is for scores that compare with one opponent; these data name "
                "both versions",
                hint="leave it out: the values are win rates already",
            )
        extra |= _win_rate(result, win_rate_against)
        within["quantity"] = extra["quantity"]
    parts = {name: part.with_(metadata=within) for name, part in result.subgroups.items()}
    return result.with_(
        metadata=extra | {"reading": inputs.readings()},
        subgroups=parts,
        findings=inputs.findings(),
    )


def _with_judge_card(result: EstimationResult, inputs: Inputs, seed: int) -> EstimationResult:
    """Add the judge card to the result if the rows have enough labels for one."""
    data = inputs.fresh if inputs.fresh is not None else inputs.logged
    if not isinstance(data, Dataset) or not has_card(data):
        return result
    cards = judge_report(data, level=result.level, seed=seed)
    return result.with_(diagnostics={"judge_card": cards.to_dict()})


def _with_labelling(
    result: EstimationResult, inputs: Inputs, anytime: bool, planned: int | None
) -> EstimationResult:
    """Add findings about rows that raters skipped, and anytime intervals if asked for."""
    kept = {} if inputs.fresh is None else inputs.fresh.metadata
    if "label_skips" in kept:
        found = skip_findings(result, kept["label_skips"], kept["label_counts"])
        result = result.with_(findings=found)
    if not anytime:
        return result
    rule = AnytimeRule(planned or TUNED_AT, level=result.level)
    return with_anytime(result, inputs.n_labels, rule)


def _used(entry: EstimatorEntry, inputs: Inputs) -> tuple[Dataset | None, ...]:
    """The data sets that the estimator predicts labels on."""
    fresh = None if isinstance(inputs.fresh, Comparisons) else inputs.fresh
    return {"fresh": (fresh,), "logged": (inputs.logged,)}.get(entry.needs, (fresh, inputs.logged))


def _run(
    entry: EstimatorEntry, inputs: Inputs, options: dict[str, Any], columns: list[str]
) -> EstimationResult:
    """Build the estimator from what it needs, estimate, and answer by subgroup."""

    def build(fresh: Dataset | Comparisons | None, logged: Dataset | None) -> Any:
        return entry.build(fresh=fresh, logged=logged, **options)

    if entry.name == "direct":
        options = {**options, "calibration_data": inputs.labelled_elsewhere()}
    estimator = build(inputs.fresh, inputs.logged)
    result: EstimationResult = estimator.fit_and_estimate()
    if columns:
        parts = subgroup_results(estimator, build, inputs.fresh, inputs.logged, columns)
        result = result.with_(subgroups=parts)
    return result


def _choose(name: str, inputs: Inputs) -> EstimatorEntry:
    """The registry entry, checked against the data at hand."""
    if inputs.fresh is None and inputs.logged is None:
        raise CJEError(
            "nothing to analyze",
            hint="give "
            + by_interface("fresh_draws_data, fresh_draws_dir or logged_data", "DATA or --logged"),
        )
    if isinstance(inputs.fresh, Comparisons):
        check_pairwise(name, inputs.logged, inputs.calibration)
        name = "pairwise"
    if name == "auto":
        name = _automatic(inputs)
    entry = find_estimator(name)
    missing = {
        "fresh": inputs.fresh is None,
        "comparisons": not isinstance(inputs.fresh, Comparisons),
        "logged": inputs.logged is None,
        "both": inputs.fresh is None or inputs.logged is None,
    }[entry.needs]
    if missing:
        fresh = by_interface("fresh_draws_data", "DATA")
        logged = by_interface("logged_data", "--logged")
        needed = {
            "fresh": f"fresh draws ({by_interface('fresh_draws_data or fresh_draws_dir', 'DATA')})",
            "comparisons": f"comparisons of two responses ({fresh})",
            "logged": f"logged data with log-probs ({logged})",
            "both": f"logged data ({logged}) and fresh draws ({fresh})",
        }[entry.needs]
        raise CJEError(f"the estimator '{name}' needs {needed}")
    if inputs.calibration is not None and entry.needs != "fresh":
        raise CJEError(
            f"the estimator '{name}' calibrates on the labelled logged rows and has no use for "
            "further calibration data",
            hint=f"leave out {by_interface('calibration_data', '--calibration')}, or use the "
            "direct estimator",
        )
    return entry


def _automatic(inputs: Inputs) -> str:
    """The estimator with the weakest assumptions among those that the data support."""
    fresh, logged = inputs.fresh, inputs.logged
    if fresh is None:
        return "calibrated-ips"
    if not inputs.n_labels:
        return "naive"
    if isinstance(fresh, Comparisons):
        return "pairwise"
    only_logged = fresh.n_labelled == 0 and inputs.calibration is None
    if not only_logged or logged is None or logged.base_policy_logprob is None:
        return "direct"
    present = {name for name in fresh.policy.names if fresh.policy.mask(name).any()}
    return "tr-cpo" if present == set(logged.target_policies) else "direct"


def _win_rate(result: EstimationResult, opponent: str) -> dict[str, Any]:
    if list(result.metadata.get("scale", (0.0, 1.0))) != [0.0, 1.0]:
        raise CJEError(
            "a win rate needs scores and labels on 0-1 (1 a win, 0 a loss, 1/2 a tie)",
            value=result.metadata.get("scale"),
        )
    refused = result.refused()
    against_half = {
        name: p
        for name, p in zip(result.policies, result.influence.p_values(0.5).tolist(), strict=True)
        if name not in refused
    }
    return {"quantity": f"win rate against {opponent}", "p_even": against_half}
