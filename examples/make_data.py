"""Write the data of the examples, the same bytes every time (but `support/`, which has its own).

python examples/make_data.py
"""

from __future__ import annotations

import csv
import json
import math
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def write_csv(path: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    target = HERE / path
    target.parent.mkdir(exist_ok=True)
    with target.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)


def write_lines(path: str, rows: Iterable[dict[str, Any]]) -> None:
    target = HERE / path
    target.parent.mkdir(exist_ok=True)
    target.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def on_scale(value: float) -> int:
    return min(max(round(value), 1), 5)


def rated(
    rng: random.Random, versions: dict[str, float], n: int, share: float
) -> list[tuple[str, str, str, int, int | None]]:
    """prompt, version, topic, judge score, label on a random share of the prompts."""
    rows = []
    for i in range(n):
        difficulty = rng.gauss(0.0, 0.8)
        topic = rng.choice(["billing", "login", "export"])
        labelled = rng.random() < share
        for version, gain in versions.items():
            quality = 3.0 + gain - difficulty + rng.gauss(0.0, 0.6)
            label = on_scale(quality) if labelled else None
            judge = on_scale(quality + 0.5 + rng.gauss(0.0, 0.4))
            rows.append((f"q{i}", version, topic, judge, label))
    return rows


def compared() -> None:
    """Scores of single responses: read_data, compare_two_prompts, gate, plan, label."""
    rng = random.Random(1)
    rows = rated(rng, {"v7": 0.0, "v8": 0.4}, 200, 0.4)
    write_csv(
        "read_data/export.csv",
        ["question_id", "prompt_version", "gpt4_points", "reviewer", "topic"],
        [(p, v, j, {None: "N/A"}.get(y, y), t) for p, v, t, j, y in rows],
    )
    usual = ["prompt_id", "policy", "topic", "judge_score", "oracle_label"]
    rows = rated(rng, {"old": 0.0, "new": 0.4}, 200, 0.4)
    write_csv("compare_two_prompts/evals.csv", usual, rows)
    rows = rated(rng, {"prod": 0.0, "cand-v2": 0.35}, 300, 0.5)
    write_csv("gate_a_release/evals.csv", usual, rows)
    rows = rated(rng, {"prod": 0.0, "cand": 0.2}, 80, 1.0)
    write_csv("choose_rows_to_label/pilot.csv", usual, rows)
    rows = rated(rng, {"prod": 0.0, "cand": 0.5}, 150, 0.5)
    texts = [(p, v, j, f"How do I fix {t}? ({p})", f"{v} answers {p}") for p, v, t, j, _ in rows]
    write_csv(
        "label_responses/responses.csv",
        ["prompt_id", "policy", "judge_score", "prompt", "response"],
        texts,
    )
    write_csv(
        "label_responses/ratings.csv",
        ["id", "version", "rating"],
        [(p, v, y) for p, v, _, _, y in rows if y is not None],
    )


def judged_twice() -> None:
    """Two judges of the same responses, of which one likes long answers."""
    rng = random.Random(8)
    rows = []
    for i in range(150):
        difficulty = rng.gauss(0.0, 0.7)
        labelled = rng.random() < 0.4
        for version, gain, words in (("prod", 0.0, 12), ("cand", 0.4, 20)):
            quality = 3.0 + gain - difficulty + rng.gauss(0.0, 0.6)
            length = words + rng.randrange(10)
            gpt = on_scale(quality + 0.3 + rng.gauss(0.0, 0.5))
            claude = on_scale(quality + 0.12 * (length - 18) + rng.gauss(0.0, 0.7))
            label = on_scale(quality) if labelled else ""
            response = " ".join(["word"] * length)
            rows.append((f"q{i}", version, response, gpt, claude, label))
    columns = ["prompt_id", "policy", "response", "gpt_score", "claude_score", "human_label"]
    write_csv("judge_the_judge/evals.csv", columns, rows)


def in_a_spreadsheet() -> None:
    """Responses in one file; ratings as a spreadsheet saves them, by two people, in words."""
    rng = random.Random(9)
    words = {1: "poor", 2: "poor", 3: "fair", 4: "good", 5: "good"}
    rows = rated(rng, {"old": 0.0, "new": 0.5}, 160, 0.4)
    write_csv(
        "labels_in_a_spreadsheet/evals.csv",
        ["prompt_id", "policy", "judge_score"],
        [(p, v, j) for p, v, _, j, _ in rows],
    )
    ratings = [
        (p, v, person, words[on_scale(y + rng.gauss(0.0, 0.4))])
        for p, v, _, _, y in rows
        if y is not None
        for person in ("Ann", "Bob")
    ]
    write_csv(
        "labels_in_a_spreadsheet/ratings.csv",
        ["Question", "Version", "Rater", "Rating"],
        ratings,
    )


def labelled_so_far() -> None:
    """Both responses to a prompt labelled, prompts in random order: after 40, and after 120."""
    rng = random.Random(10)
    rows = rated(rng, {"prod": 0.0, "cand": 0.35}, 400, 1.0)
    order = rng.sample(range(400), 400)
    for n in (40, 120):
        labelled = {f"q{i}" for i in order[:n]}
        write_csv(
            f"may_i_stop_now/after_{2 * n}.csv",
            ["prompt_id", "policy", "judge_score", "human_label"],
            [(p, v, j, y if p in labelled else "") for p, v, _, j, y in rows],
        )


def side_by_side() -> None:
    rng = random.Random(2)
    strength = {"prod": 0.0, "cand-a": 0.6, "cand-b": 0.2}
    rows = []
    for i in range(500):
        first, second = rng.sample(list(strength), 2)
        gap = strength[first] - strength[second] + rng.gauss(0.0, 0.8)
        human = "tie" if abs(gap) < 0.15 else "model_a" if gap > 0.0 else "model_b"
        longer = (second == "cand-b") - (first == "cand-b")  # the judge dislikes cand-b's length
        seen = gap + 0.5 * longer + 0.3 + rng.gauss(0.0, 0.4)
        judge = "tie" if abs(seen) < 0.1 else "model_a" if seen > 0.0 else "model_b"
        rows.append((f"q{i}", first, second, judge, human if i < 200 else ""))
    columns = ["question_id", "model_a", "model_b", "judge_winner", "human_winner"]
    write_csv("compare_side_by_side/pairs.csv", columns, rows)


def over_time() -> None:
    """Twenty days: from 5 April on the judge is more generous. Ten anchors are scored every day."""
    rng = random.Random(3)
    columns = ["prompt_id", "policy", "day", "anchor", "judge_score", "human_label"]
    anchors = [rng.random() for _ in range(10)]
    for month, name in ((3, "march"), (4, "april")):
        rows = []
        for day in range(1, 11):
            date = f"2026-{month:02d}-{day:02d}"
            generous = 0.15 if (month, day) >= (4, 5) else 0.0
            for i in range(80):
                quality = rng.random()
                judge = min(max(quality + generous + rng.gauss(0.0, 0.1), 0.0), 1.0)
                label = f"{quality:.2f}" if i % 4 == 0 else ""
                rows.append((f"{name}-{day}-{i}", "prod", date, 0, f"{judge:.3f}", label))
            for i, quality in enumerate(anchors):
                judge = min(max(quality + generous + rng.gauss(0.0, 0.02), 0.0), 1.0)
                rows.append((f"anchor-{i}", "prod", date, 1, f"{judge:.3f}", ""))
        write_csv(f"monitor/{name}.csv", columns, rows)
    old, new = [], []
    for i in range(300):
        quality = rng.random()
        label = f"{quality:.2f}" if i % 3 == 0 else ""
        scores = [min(max(quality + rng.gauss(0.0, 0.1), 0.0), 1.0) for _ in range(2)]
        old.append((f"r{i}", f"{scores[0]:.3f}", label))
        new.append((f"r{i}", f"{min(scores[1] + 0.15, 1.0):.3f}", label))
    for name, rows in (("old", old), ("new", new)):
        write_csv(f"monitor/{name}.csv", ["id", "judge_score", "human_label"], rows)


def logged() -> None:
    """A log with exact log-probs of four words, under its own policy and two targets."""
    rng = random.Random(4)
    words = {"good": 0.7, "fair": 0.5, "poor": 0.3, "superb": 0.9}
    policies = {
        "base": (0.3, 0.4, 0.292, 0.008),
        "bolder": (0.5, 0.35, 0.142, 0.008),
        "far": (0.01, 0.01, 0.01, 0.97),  # hardly ever what the log holds
    }
    rows = []
    for i in range(500):
        word = rng.choices(list(words), policies["base"])[0]
        at = list(words).index(word)
        quality = min(max(words[word] + rng.gauss(0.0, 0.1), 0.0), 1.0)
        row: dict[str, Any] = {
            "prompt_id": f"q{i}",
            "judge_score": round(quality**2, 3),
            "base_policy_logprob": math.log(policies["base"][at]),
            "target_policy_logprobs": {
                name: math.log(chance[at]) for name, chance in policies.items() if name != "base"
            },
        }
        if i % 4 == 0:
            row["oracle_label"] = round(min(max(quality + rng.gauss(0.0, 0.1), 0.0), 1.0), 3)
        rows.append(row)
    write_lines("off_policy/logged.jsonl", rows)


def classified() -> None:
    rng = random.Random(5)
    rows = []
    for _ in range(800):
        score = rng.gauss(0.0, 1.2)
        true = rng.random() < 1.0 / (1.0 + math.exp(-score))
        rows.append((int(true), f"{1.0 / (1.0 + math.exp(-1.8 * score)):.4f}"))  # too sure
    write_csv("calibrate_a_classifier/preds.csv", ["label", "probability"], rows)


def survived() -> None:
    rng = random.Random(6)
    rows = []
    for _ in range(600):
        x = rng.gauss(0.0, 1.0)
        happens = 2.0 * (rng.expovariate(1.0) / math.exp(x)) ** 0.5
        ends = rng.expovariate(0.25)
        time, event = min(happens, ends), int(happens <= ends)
        risks = [
            1.0 - math.exp(-((t / 2.0) ** 2) * math.exp(f * x)) for f in (1, 2) for t in (1, 2)
        ]
        rows.append((f"{time:.4f}", event, *(f"{risk:.4f}" for risk in risks)))
    columns = ["t", "e", "risk_1", "risk_2", "old_1", "old_2"]
    write_csv("check_a_survival_model/preds.csv", columns, rows)


def competed() -> None:
    """Relapse (1) and death without relapse (2), constant hazards; risks that are right."""
    rng = random.Random(11)
    rows = []
    for _ in range(1500):
        relapse, death = 0.3 * math.exp(rng.gauss(0.0, 0.8)), 0.15
        happens, ends = rng.expovariate(relapse + death), rng.expovariate(0.2)
        cause = 1 if rng.random() < relapse / (relapse + death) else 2
        share = relapse / (relapse + death)
        risks = [share * (1.0 - math.exp(-(relapse + death) * t)) for t in (1, 3)]
        code = cause if happens <= ends else 0
        rows.append((f"{min(happens, ends):.4f}", code, *(f"{risk:.4f}" for risk in risks)))
    write_csv("competing_risks/preds.csv", ["t", "event", "risk_1", "risk_3"], rows)


def prompts() -> None:
    rng = random.Random(7)
    verbs, things = ("open", "export", "share", "delete"), ("a file", "the report", "my account")
    rows = [
        {"id": f"q{i:03d}", "context": f"How do I {rng.choice(verbs)} {rng.choice(things)}?"}
        for i in range(120)
    ]
    for folder in ("run_pipeline", "run_on_a_cluster"):
        write_lines(f"{folder}/prompts.jsonl", rows)


def main() -> None:
    for make in (
        compared, judged_twice, in_a_spreadsheet, labelled_so_far, side_by_side, over_time, logged,
        classified, survived, competed, prompts,
    ):  # fmt: skip
        make()


if __name__ == "__main__":
    main()
