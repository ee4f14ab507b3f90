"""Write logs with Inspect AI's own writer: python make_inspect_ai.py OUT (needs: inspect_ai).

Letter grades over two epochs as `.eval`; a second, human scorer as JSON; one edited score as JSON.
"""

import shutil
import sys
from pathlib import Path

from inspect_ai import Task
from inspect_ai import eval as run
from inspect_ai.dataset import Sample
from inspect_ai.log import ProvenanceData, edit_score, read_eval_log, write_eval_log
from inspect_ai.model import ModelOutput
from inspect_ai.scorer import (
    CORRECT,
    INCORRECT,
    NOANSWER,
    PARTIAL,
    Score,
    ScoreEdit,
    accuracy,
    mean,
    scorer,
)
from inspect_ai.solver import solver

GRADES = [CORRECT, PARTIAL, INCORRECT, NOANSWER]


@solver
def canned():
    """Answers without calling a model."""

    async def solve(state, generate):
        answer = f"answer {state.sample_id}, epoch {state.epoch}"
        state.output = ModelOutput.from_content("mockllm/model", answer)
        return state

    return solve


@scorer(metrics=[accuracy()])
def letter_grader():
    async def score(state, target):
        i = int(str(state.sample_id)[1:]) + state.epoch - 1
        return Score(value=GRADES[i % 4], answer=state.output.completion, explanation="by rule")

    return score


@scorer(metrics=[mean()])
def human_rating():
    async def score(state, target):
        return Score(value=0.25 * (int(str(state.sample_id)[1:]) % 5))

    return score


def write(out: Path, name: str, scorers: object, log_format: str) -> None:
    samples = [Sample(id=f"q{i}", input=f"Capital number {i}?", target="x") for i in range(4)]
    task = Task(name="capitals", dataset=samples, solver=canned(), scorer=scorers, epochs=2)
    folder = out / "tmp"
    run(task, model="mockllm/model", log_dir=str(folder), log_format=log_format, display="none")
    written = next(folder.iterdir())
    shutil.move(written, out / name)


def main() -> None:
    out = Path(sys.argv[1])
    write(out, "letters.eval", letter_grader(), "eval")
    write(out, "with_human.json", [letter_grader(), human_rating()], "json")
    write(out, "edited.json", letter_grader(), "json")
    log = read_eval_log(str(out / "edited.json"))
    edit = ScoreEdit(value="C", provenance=ProvenanceData(author="ann", reason="it is right"))
    edit_score(log, sample_id="q1", score_name="letter_grader", edit=edit, epoch=1)
    write_eval_log(log, str(out / "edited.json"))


if __name__ == "__main__":
    main()
