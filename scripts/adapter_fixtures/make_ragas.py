"""Evaluate with RAGAS itself: python make_ragas.py OUT (needs: ragas, langchain-community<0.4)."""

import os
import sys
from dataclasses import dataclass

os.environ["RAGAS_DO_NOT_TRACK"] = "true"

from ragas import EvaluationDataset, SingleTurnSample, evaluate
from ragas.metrics import ExactMatch, StringPresence


@dataclass
class Rule(ExactMatch):
    """A metric with modes that looks its score up, so that no model is called."""

    name: str = "factual_correctness"
    mode: str = "f1"

    async def _single_turn_ascore(self, sample, callbacks):
        return 0.25 * int(sample.response.split()[-1])


samples = [
    SingleTurnSample(
        user_input=f"question {i}",
        retrieved_contexts=["a passage", "another"],
        response=f"answer {i}",
        reference=f"answer {i if i % 2 else 'x'}",
    )
    for i in range(4)
]
runs = {"one": [ExactMatch()], "two": [ExactMatch(), StringPresence()], "mode": [Rule()]}
for name, metrics in runs.items():
    result = evaluate(EvaluationDataset(samples), metrics=metrics, show_progress=False)
    result.to_pandas().to_csv(f"{sys.argv[1]}/{name}.csv", index=False)
