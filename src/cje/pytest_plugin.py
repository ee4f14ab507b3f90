"""pytest plugin: `@pytest.mark.cje(...)` and the fixture `cje_gate`.

A test with the mark and the fixture receives the gate's result, and fails if the gate fails::

    @pytest.mark.cje("evals.csv", baseline="prod", candidate="cand", margin=0.1)
    def test_the_candidate_is_good_enough(cje_gate):
        print(cje_gate.sentences())

UNDECIDED also fails the test, unless ``undecided="pass"`` (or ``"skip"``) is given. Without a mark
the fixture is a function with the same arguments that returns the result and fails no test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from cje.analysis.gate import GateResult

__all__ = ["cje_gate", "pytest_configure"]

_RULE = ("margin", "min_gain")
_GATE = ("each",)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark, so that ``--strict-markers`` accepts it."""
    config.addinivalue_line(
        "markers",
        "cje(data, baseline=, candidate=, margin=, min_gain=, by=, each=, undecided=, ...): "
        "the gate that the fixture cje_gate decides",
    )


@pytest.fixture
def cje_gate(request: pytest.FixtureRequest) -> Any:
    """Result of the gate of the test's ``cje`` mark; without a mark, a function that returns it."""
    mark = request.node.get_closest_marker("cje")
    if mark is None:
        return _gate
    options = dict(mark.kwargs)
    undecided = options.pop("undecided", "fail")
    if undecided not in ("fail", "pass", "skip"):
        pytest.fail(f"cje: undecided is fail, pass or skip, not {undecided!r}", pytrace=False)
    found = _gate(*mark.args, **options)
    text = "\n".join([*found.sentences(), *found.cautions()])
    if found.decision == "FAIL" or (found.decision == "UNDECIDED" and undecided == "fail"):
        pytest.fail(text, pytrace=False)
    if found.decision == "UNDECIDED" and undecided == "skip":
        pytest.skip(text)
    return found


def _gate(data: Any, *, baseline: str, candidate: str | None = None, **options: Any) -> GateResult:
    """Analyse `data` and decide; further options are those of `cje.analyze_dataset`."""
    from cje.analysis import analyze_dataset
    from cje.analysis.gate import candidate_of, gate
    from cje.inference import GateRule

    rule = GateRule(**{name: options.pop(name) for name in _RULE if name in options})
    how = {name: options.pop(name) for name in _GATE if name in options}
    result = analyze_dataset(data, baseline=baseline, **options)
    return gate(result, candidate_of(result, baseline, candidate), baseline, rule=rule, **how)
