"""Policies: sample a response, and score a given one (teacher forcing)."""

from cje.policies.answers import Generation, LogProb
from cje.policies.ngram import NgramPolicy
from cje.policies.ngram_model import NgramModel

__all__ = ["Generation", "LogProb", "NgramModel", "NgramPolicy"]
