"""Names of the roles: the synonyms people use, and names that hint at a time, length or cluster."""

from __future__ import annotations

import re
from collections.abc import Mapping

from cje.data.leaf import normalised

__all__ = [
    "ROLE_NAMES",
    "SYNONYMS",
    "may_be_cluster",
    "may_be_length",
    "may_be_time",
    "may_play_a_role",
]

# Role -> names people use for it, the surest first. The role's own name is always the surest.
SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "prompt_id": (
        "example_id", "sample_id", "item_id", "question_id", "instance_id", "query_id", "task_id",
        "doc_id", "input_id", "prompt_idx", "prompt_index", "custom_id", "prompt_no", "question_no",
        "question_number", "case_id", "test_case_id", "test_id", "qid", "q_id", "item", "uid", "id",
        "conversation_id", "session_id", "thread_id", "dialogue_id", "dialog_id", "chat_id",
    ),
    "policy": (
        "policy_name", "model", "model_name", "model_id", "system", "generator", "variant", "arm",
        "candidate", "provider", "prompt_version", "version", "experiment", "experiment_name",
        "condition", "treatment", "agent", "agent_version", "config", "configuration",
        "prompt_name", "prompt_template", "deployment", "release", "run", "run_name", "run_id",
        "group",
    ),
    "draw_idx": (
        "draw", "draw_id", "draw_index", "epoch", "repeat", "repeat_idx", "repetition", "replicate",
        "rep", "trial", "trial_id", "attempt", "iteration", "sample_idx", "sample_index",
        "generation_idx", "completion_idx", "turn", "turn_id", "turn_idx", "turn_index",
        "turn_number",
    ),
    "judge_score": (
        "judge", "judges", "judge_scores", "judge_rating", "judge_mean", "llm_judge_score",
        "llm_score", "autorater_score",
        "auto_score", "grader_score", "model_grade", "proxy_score", "score", "rating",
    ),
    "judge_variance": ("judge_var", "score_variance", "judge_score_variance"),
    "oracle_label": (
        "oracle", "oracle_score", "human_label", "human_score", "human_rating", "human",
        "gold_label", "gold_score", "gold", "expert_label", "expert_score", "ground_truth",
        "annotation", "label", "outcome", "kpi", "annotations", "human_labels", "human_ratings",
        "human_scores", "expert_labels", "labels", "ratings",
    ),
    "label_propensity": (
        "propensity", "label_probability", "labeling_propensity", "labelling_propensity",
        "sampling_probability", "pi_label",
    ),
    "base_policy_logprob": (
        "base_logprob", "logp_base", "base_logp", "behavior_logprob", "behaviour_logprob",
        "logging_logprob", "logp_logging", "logp_behavior", "logp", "logprob", "log_prob",
    ),
    "target_policy_logprobs": (
        "target_logprobs", "logp_target_all", "logp_target", "target_logps", "target_logp",
    ),
    "rewards": ("reward", "calibrated_reward"),
    "prompt": ("context", "question", "instruction", "query", "input", "user_prompt"),
    "response": ("completion", "output", "answer", "generation", "model_output", "response_text"),
    "cluster": ("cluster_id",),
    "rater": ("annotator", "annotator_id", "rater_id", "worker_id", "reviewer", "labeler"),
}  # fmt: skip

# Columns that may hold several prompts of one origin. They are used on request only: the direct
# estimator tests whether label errors are correlated within them.
_LIKELY_CLUSTERS = frozenset(
    name
    for stem in ("conversation", "session", "thread", "dialog", "dialogue", "chat", "user",
                 "customer", "account", "document", "article", "patient", "ticket", "author")
    for name in (stem, f"{stem}_id", f"{stem}_name")
)  # fmt: skip

_LENGTH = re.compile(r"^(?:response|output|completion|answer)?_?(?:len|length|chars|tokens|words)$")
_TIME = re.compile(r"^(?:time|timestamp|ts|created(?:_at)?|created_time|date|day|week|epoch)$")

ROLE_NAMES = frozenset(SYNONYMS) | {name for names in SYNONYMS.values() for name in names}


def may_play_a_role(name: str) -> bool:
    """Whether a field of this name could be recognised as one of the roles."""
    return normalised(name) in ROLE_NAMES


def may_be_time(name: str) -> bool:
    """Whether a column of this name may say when a response was made."""
    return _TIME.match(name.lower()) is not None


def may_be_length(name: str) -> bool:
    """Whether a column of this name may hold the length of the response."""
    return _LENGTH.match(normalised(name)) is not None


def may_be_cluster(name: str) -> bool:
    """Whether a column of this name may say which prompts belong together."""
    return normalised(name.rpartition(".")[2]) in _LIKELY_CLUSTERS
