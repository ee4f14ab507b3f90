"""Write `evals.csv`, a support desk with three versions of one prompt, and `truth.csv`.

    python examples/support/make_evals.py

Each answer has steps that solve the problem and sentences that only fill. People rate it by its
steps and lose patience with filler; the judge likes every sentence. `cand-short` therefore beats
`prod`, `cand-long` is the worst, and the judge has them the other way round. People rated
everything once, which is the truth; `evals.csv` keeps their ratings of 80 random questions.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Sequence
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
N_QUESTIONS, N_RATED, SEED = 240, 80, 11

TOPICS = {
    "billing": (
        ["an invoice", "a refund", "the card on file", "a double charge", "the yearly plan"],
        ["open Settings and choose Billing", "pick the month in question",
         "select 'Report a charge'", "confirm with the code we mail you"],
    ),
    "login": (
        ["the reset link", "two-factor codes", "a locked account", "single sign-on", "a new phone"],
        ["open the sign-in page", "choose 'I cannot sign in'", "enter the address you registered",
         "use the newest link, the older ones are void"],
    ),
    "export": (
        ["a CSV export", "the monthly report", "an empty file", "broken accents", "a large export"],
        ["open the report", "choose Export at the top right", "set the encoding to UTF-8",
         "wait for the mail with the file"],
    ),
    "sync": (
        ["the calendar", "the phone app", "shared folders", "offline edits", "duplicate contacts"],
        ["open Sync in the menu", "switch the device off and on again", "choose 'Sync now'",
         "check that both clocks agree"],
    ),
}  # fmt: skip
FILLER = (
    "Thank you so much for reaching out to us today!",
    "We completely understand how important this is to you.",
    "Our team works around the clock to give you the best experience.",
    "Please know that we value every single customer.",
    "There are many reasons why something like this can happen.",
    "It is always a good idea to keep your software up to date.",
    "We hope that you enjoy our product as much as we enjoy building it.",
    "Do not hesitate to contact us again at any time.",
)
# Version -> chance of each step, least and most filler sentences.
VERSIONS = {"prod": (0.66, 1, 3), "cand-short": (0.74, 0, 1), "cand-long": (0.60, 4, 7)}


def answer(
    steps: Sequence[str], version: str, hard: float, rng: random.Random
) -> tuple[str, int, int]:
    """The text, its number of steps and of filler sentences."""
    chance, least, most = VERSIONS[version]
    kept = [step for step in steps if rng.random() < chance - hard]
    filler = rng.sample(FILLER, rng.randint(least, most))
    body = [f"{step[0].upper()}{step[1:]}." for step in kept]
    half = (len(filler) + 1) // 2
    text = " ".join([*filler[:half], *body, *filler[half:]])
    return text or "Please see our help pages.", len(kept), len(filler)


def on_scale(value: float) -> int:
    return min(max(round(value), 1), 5)


def main() -> None:
    rng = random.Random(SEED)
    rows, ratings = [], []
    for number in range(N_QUESTIONS):
        topic = rng.choice(list(TOPICS))
        things, steps = TOPICS[topic]
        thing = rng.choice(things)
        question = f"I have a problem with {thing}. What should I do? (ticket {1000 + number})"
        hard = rng.uniform(-0.15, 0.15)
        for version in VERSIONS:
            text, n_steps, n_filler = answer(steps, version, hard, rng)
            person = on_scale(1.4 + 0.85 * n_steps - 0.12 * n_filler + rng.gauss(0.0, 0.6))
            judge = on_scale(1.0 + 0.65 * n_steps + 0.27 * n_filler + rng.gauss(0.0, 0.4))
            ratings.append((version, person))
            rows.append([f"t{1000 + number}", version, topic, question, text, judge, person])
    rated = set(rng.sample([f"t{1000 + k}" for k in range(N_QUESTIONS)], N_RATED))
    with (FOLDER / "evals.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(
            ["prompt_id", "version", "topic", "prompt", "response", "judge_score", "human_label"]
        )
        for row in rows:
            writer.writerow([*row[:-1], row[-1] if row[0] in rated else ""])
    with (FOLDER / "truth.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["version", "mean_human_label"])
        for version in VERSIONS:
            own = [person for name, person in ratings if name == version]
            writer.writerow([version, f"{sum(own) / len(own):.6f}"])


if __name__ == "__main__":
    main()
