"""Examples at the end of `cje COMMAND --help`: the command lines people type most."""

from __future__ import annotations

__all__ = ["EXAMPLES", "epilog"]

EXAMPLES: dict[str, tuple[str, ...]] = {
    "analyze": (
        "cje analyze evals.csv --baseline prod",
        "cje analyze prod.csv cand.csv --baseline prod --report report.html",
        "cje analyze evals.xlsx --sheet results --field judge_score=gpt4 --field label=human",
        "cje analyze fresh_draws/ --logged logged.jsonl --estimator stacked-dr",
    ),
    "convert": (
        "cje convert export.xlsx evals.parquet",
        "cje convert prod.csv cand.csv all.parquet",
    ),
    "classifier check": (
        "cje classifier check predictions.csv",
        "cje classifier check predictions.csv --by site --map map.json --report page.html",
    ),
    "demo": ("cje demo --out demo", "cje demo --pipeline none"),
    "doctor": ("cje doctor evals.csv", "cje doctor logged.jsonl --field label=human.rating"),
    "drift": ("cje drift last_month.csv today.csv --on id",),
    "findings": ("cje findings",),
    "gate": (
        "cje gate evals.csv --baseline prod --candidate cand",
        "cje gate evals.csv --baseline prod --candidate cand --margin 0.02 --markdown gate.md",
    ),
    "judge": (
        "cje judge evals.csv",
        "cje judge evals.csv --also claude_score --report judges.html",
        "cje judge evals.csv --judge gpt-4o --rubric rubric.txt --card card.json",
    ),
    "label": (
        "cje label evals.csv --count 100",
        "cje label evals.csv --baseline prod --candidate cand --count 200 --scale 1-5",
    ),
    "labels export": ("cje labels export labels.db labels.csv",),
    "labels import": (
        "cje labels import labels.db for_bob.xlsx --rater bob",
        "cje labels import labels.db label_studio.json",
    ),
    "labels sheet": ("cje labels sheet labels.db for_bob.xlsx --rater bob",),
    "monitor": ("cje monitor evals.csv --time date",),
    "plan": ("cje plan evals.csv --detect 0.05", "cje plan evals.csv --transport 0.1"),
    "run": ("cje run config.yaml",),
    "score": (
        "cje score logged.jsonl --policy prod=models/a --policy cand=models/b --logging prod "
        "-o scored.parquet",
    ),
    "resume": ("cje resume config.yaml",),
    "show": ("cje show result.json --report report.html",),
    "status": ("cje status config.yaml",),
    "survival check": (
        "cje survival check predictions.csv --time years --event died --horizons 1,3",
        "cje survival check predictions.csv --time years --event died --horizons 1,3 "
        "--risk 'new_{t}' --risk 'old_{t}' --report page.html",
    ),
    "survival example": ("cje survival example",),
    "survival run": ("cje survival run experiment.yaml",),
    "validate": ("cje validate config.yaml",),
}


def epilog(command: str) -> str:
    r"""The examples of a command as one block; ``\b`` keeps the line breaks.

    A group of commands shows the first example of each.
    """
    own = EXAMPLES.get(command, ())
    members = [lines[0] for name, lines in EXAMPLES.items() if name.startswith(f"{command} ")]
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in (*own, *members))])
