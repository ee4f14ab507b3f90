"""Write a test run with DeepEval itself: python make_deepeval.py OUT (needs: deepeval)."""

import os
import sys

os.environ["DEEPEVAL_TELEMETRY_OPT_OUT"] = "YES"
os.environ["DEEPEVAL_RESULTS_FOLDER"] = sys.argv[1]

from deepeval import evaluate
from deepeval.metrics import BaseMetric
from deepeval.test_case import LLMTestCase


class Rule(BaseMetric):
    """A metric that looks its score up, so that no model is called."""

    def __init__(self, name, scores, threshold=0.5):
        self.name, self.scores, self.threshold, self.async_mode = name, scores, threshold, False

    def measure(self, test_case, *args, **kwargs):
        self.score = self.scores[int(test_case.input.split()[-1])]
        self.reason, self.success = "by rule", self.score >= self.threshold
        return self.score

    async def a_measure(self, test_case, *args, **kwargs):
        return self.measure(test_case)

    def is_successful(self):
        return self.success

    @property
    def __name__(self):
        return self.name


cases = [
    LLMTestCase(
        name=f"case_{i}", input=f"question {i}", actual_output=f"answer {i}", expected_output="x"
    )
    for i in range(4)
]
metrics = [Rule("Correctness [GEval]", [0.9, 0.4, 0.7, 0.1])]
evaluate(cases, metrics, hyperparameters={"model": "mock-1", "prompt": "v1"})
