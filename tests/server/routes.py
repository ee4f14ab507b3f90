"""The protocol: what each path answers, as plain dicts."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Any

from tests.server.judging import answer_as_judge
from tests.server.language import Language, default_models
from tests.server.quirks import Quirks

__all__ = ["Refused", "Routes"]

JUDGES = ("judge", "gpt", "oracle", "claude")


@dataclass
class Refused(Exception):
    """A request this server does not take."""

    status: int
    message: str


class Routes:
    """Path and body in, JSON out."""

    def __init__(self, quirks: Quirks) -> None:
        self.quirks = quirks
        self._scored: dict[tuple[Any, ...], int] = {}
        self.languages = {name: Language(model) for name, model in default_models().items()}

    def answer(self, path: str, body: dict[str, Any], fault: str | None) -> dict[str, Any]:
        """The answer to a request, possibly with a fault in its content."""
        if path == "/v1/chat/completions":
            return self._chat(body, fault)
        if path == "/v1/completions":
            if not self.quirks.completions:
                raise Refused(404, "this model is a chat model: use /v1/chat/completions")
            return self._completions(body, fault)
        if path == "/v1/messages":
            return self._messages(body, fault)
        if path == "/tokenize" and self.quirks.tokenize:
            bos = self.quirks.bos and body.get("add_special_tokens", True)
            _, ids = self._language(body).tokens(body["prompt"], bos=bos)
            return {"tokens": ids, "count": len(ids)}
        if path == "/generate" and self.quirks.sglang_generate and "sampling_params" in body:
            return self._sglang(body, fault)
        if path == "/generate" and self.quirks.tgi_generate and "inputs" in body:
            return self._tgi(body, fault)
        raise Refused(404, f"no route {path}")

    @staticmethod
    def kind(path: str, body: dict[str, Any]) -> str:
        """Which faults can strike: scoring, writing or judging."""
        if path == "/v1/messages" or path == "/v1/chat/completions":
            return "judge" if str(body.get("model", "")).startswith(JUDGES) else "write"
        scoring = body.get("echo") or "prompt_logprobs" in body or path == "/generate"
        return "score" if scoring else "write"

    def _language(self, body: dict[str, Any]) -> Language:
        name = str(body.get("model", "base"))
        if name.startswith("missing"):
            raise Refused(404, f"the model {name} does not exist")
        return self.languages.get(name, self.languages["base"])

    # chat ---------------------------------------------------------------------------------------

    def _chat(self, body: dict[str, Any], fault: str | None) -> dict[str, Any]:
        model = str(body.get("model", ""))
        if model.startswith("missing"):
            raise Refused(404, f"the model {model} does not exist")
        if self.quirks.new_token_limit and "max_tokens" in body:
            raise Refused(400, "Unsupported parameter 'max_tokens': use 'max_completion_tokens'")
        if sum(len(m["content"]) for m in body["messages"]) > self.quirks.context_limit:
            raise Refused(400, "This model's maximum context length is exceeded")
        if body.get("response_format") and not self.quirks.structured_output:
            raise Refused(400, "response_format is not supported")
        if model.startswith(JUDGES):
            message, logprobs, finish, count = self._judge(body, model, fault)
        else:
            message, logprobs, finish, count = self._reply(body, fault)
        return {
            "id": "chatcmpl-0",
            "object": "chat.completion",
            "created": 0,
            "model": model,
            "choices": [
                {"index": 0, "message": message, "logprobs": logprobs, "finish_reason": finish}
            ],
            "usage": _usage(sum(len(m["content"]) for m in body["messages"]) // 4, count),
        }

    def _judge(self, body: dict[str, Any], model: str, fault: str | None) -> Any:
        said = answer_as_judge(body, model, structured=self.quirks.structured_output)
        text = said["text"]
        if fault == "non-score":
            text = "I would rather not put a number on this. It has 2 good parts of 3."
        logprobs = None
        if body.get("logprobs"):
            content = [
                {"token": token, "logprob": -0.01, "top_logprobs": []} for token in said["tokens"]
            ]
            for entry in content:
                if entry["token"] in said["top"]:
                    entry["logprob"] = said["top"][entry["token"]]
                    entry["top_logprobs"] = [
                        {"token": t, "logprob": lp} for t, lp in said["top"].items()
                    ]
            logprobs = {"content": content}
        return {"role": "assistant", "content": text}, logprobs, "stop", len(text) // 4

    def _reply(self, body: dict[str, Any], fault: str | None) -> Any:
        if fault == "refusal":
            refusal = {"role": "assistant", "content": None, "refusal": "I cannot help with that."}
            return refusal, None, "stop", 6
        language = self._language(body)
        prompt = "\n\n".join(m["content"] for m in body["messages"])
        _, ids = language.tokens(prompt, bos=self.quirks.bos)
        written, logs, ended = language.write(ids, **_sampling(body))
        content = [
            {"token": language.model.vocabulary[i], "logprob": v, "top_logprobs": []}
            for i, v in zip(written, logs, strict=True)
        ]
        wanted = body.get("logprobs") and self.quirks.gives_logprobs
        message = {"role": "assistant", "content": language.model.decode(written)}
        return message, {"content": content} if wanted else None, _finish(ended), len(written)

    def _messages(self, body: dict[str, Any], fault: str | None) -> dict[str, Any]:
        messages = list(body["messages"])
        if body.get("system"):
            messages.insert(0, {"role": "system", "content": body["system"]})
        chat = self._chat({**body, "messages": messages}, fault)
        choice = chat["choices"][0]
        stop = {"stop": "end_turn", "length": "max_tokens"}[choice["finish_reason"]]
        text = choice["message"]["content"]
        return {
            "id": "msg_0",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": [] if text is None else [{"type": "text", "text": text}],
            "stop_reason": "refusal" if text is None else stop,
            "usage": {
                "input_tokens": chat["usage"]["prompt_tokens"],
                "output_tokens": chat["usage"]["completion_tokens"],
            },
        }

    # completions --------------------------------------------------------------------------------

    def _completions(self, body: dict[str, Any], fault: str | None) -> dict[str, Any]:
        quirks, language = self.quirks, self._language(body)
        echo, asked = bool(body.get("echo")), int(body.get("max_tokens", 16))
        if quirks.breaks_at_zero and (echo or asked == 0):
            raise Refused(500, "Internal Server Error")
        if echo and not quirks.echo:
            raise Refused(422, "echo is not supported")
        if asked == 0 and quirks.needs_echo_for_zero and not echo:
            raise Refused(400, "max_tokens must be at least 1")
        if asked <= 0 and quirks.zero_writes_to_the_end:
            asked = 64
        bos = quirks.bos and body.get("add_special_tokens") is not False
        texts, ids = language.tokens(body["prompt"], bos=bos)
        written, logs, ended = language.write(ids, **_sampling(body) | {"max_tokens": asked})
        choice: dict[str, Any] = {
            "index": 0,
            "text": language.model.decode(written),
            "finish_reason": _finish(ended),
            "logprobs": None,
        }
        if echo:
            choice["text"] = "".join(texts) + choice["text"]
        if quirks.prompt_logprobs and body.get("prompt_logprobs") is not None:
            choice["prompt_logprobs"] = self._vllm_prompt(language, texts, ids, fault)
        if body.get("logprobs") is not None and quirks.gives_logprobs:
            shown = echo and not (quirks.ignores_prompt_at_logprobs_0 and body["logprobs"] == 0)
            choice["logprobs"] = self._block(
                language, body, texts if shown else [], ids, written, logs, fault
            )
        if body.get("return_token_ids"):
            choice["token_ids"], choice["prompt_token_ids"] = written, ids
        return {
            "id": "cmpl-0", "object": "text_completion", "created": 0,
            "model": body.get("model", ""), "choices": [choice],
            "usage": _usage(len(ids), len(written)),
        }  # fmt: skip

    def _block(
        self,
        language: Language,
        body: dict[str, Any],
        texts: list[str],
        ids: list[int],
        written: list[int],
        logs: list[float],
        fault: str | None,
    ) -> dict[str, Any]:
        """OpenAI's log-prob block: the prompt's tokens (when echoed), then the written ones."""
        tokens = [*texts, *(language.model.vocabulary[i] for i in written)]
        prompt = self._score(language, body, ids) if texts else []
        values: list[Any] = [*prompt, *logs]
        if texts and self.quirks.shifted_without_bos:
            values = [*values[1:], -0.5]
        values = _spoil(values, fault)
        offsets, at = [], 0
        for token in tokens:
            offsets.append(at)
            at += len(token)
        return {
            "tokens": tokens,
            "token_logprobs": values,
            "text_offset": offsets,
            "top_logprobs": None,
        }

    def _score(self, language: Language, body: dict[str, Any], ids: list[int]) -> list[Any]:
        sampling = (1.0, 1.0)
        if self.quirks.scores_at_temperature:
            sampling = (float(body.get("temperature", 1.0)), float(body.get("top_p", 1.0)))
        values = language.floored(language.score(ids, *sampling), self.quirks.floor)
        if self.quirks.noise and values and values[-1] is not None:
            key = (body["model"], *ids)
            number = self._scored[key] = self._scored.get(key, 0) + 1
            drawn = random.Random(f"{key} {number}").gauss(0.0, self.quirks.noise)
            values[-1] = min(0.0, values[-1] + drawn)
        return values

    def _vllm_prompt(
        self, language: Language, texts: list[str], ids: list[int], fault: str | None
    ) -> list[Any]:
        values = _spoil(language.floored(language.score(ids), self.quirks.floor), fault)
        return [
            None if v is None else {str(i): {"logprob": v, "rank": 1, "decoded_token": t}}
            for t, i, v in zip(texts, ids, values, strict=False)
        ]

    # other engines' own routes ------------------------------------------------------------------

    def _sglang(self, body: dict[str, Any], fault: str | None) -> dict[str, Any]:
        language = self._language(body)
        texts, ids = language.tokens(body.get("text", body.get("input_ids")), bos=self.quirks.bos)
        sampling = body["sampling_params"]
        at = float(sampling.get("temperature", 1.0)) if body.get("temp_scaled_logprobs") else 1.0
        cut = float(sampling.get("top_p", 1.0)) if body.get("top_p_normalized_logprobs") else 1.0
        values = _spoil(language.floored(language.score(ids, at, cut), None), fault)
        triples = [[v, i, t] for v, i, t in zip(values, ids, texts, strict=False)]
        return {
            "text": "",
            "meta_info": {
                "input_token_logprobs": triples,
                "prompt_tokens": len(ids),
                "completion_tokens": 0,
            },
        }

    def _tgi(self, body: dict[str, Any], fault: str | None) -> dict[str, Any]:
        language = self._language(body)
        texts, ids = language.tokens(body["inputs"], bos=False)
        prefill: list[Any] = []
        if self.quirks.tgi_prefill:
            values = _spoil(language.floored(language.score(ids), None), fault)
            prefill = [
                {"id": i, "text": t, "logprob": v}
                for t, i, v in zip(texts, ids, values, strict=False)
            ]
        return {"generated_text": "", "details": {"prefill": prefill, "generated_tokens": 1}}


def _spoil(values: list[Any], fault: str | None) -> list[Any]:
    """Log-probs with one entry wrong."""
    at = len(values) - 1
    spoilt = {"nan": math.nan, "missing": None, "positive": 3.0, "sentinel": -9999.0}
    if fault in spoilt and at >= 1:
        return [*values[:at], spoilt[fault], *values[at + 1 :]]
    return values[:-1] if fault == "short" else values


def _sampling(body: dict[str, Any]) -> dict[str, Any]:
    return {
        "max_tokens": int(body.get("max_tokens") or body.get("max_completion_tokens") or 16),
        "temperature": float(body.get("temperature", 1.0)),
        "top_p": float(body.get("top_p", 1.0)),
        "seed": int(body.get("seed") or 0),
    }


def _finish(ended: bool) -> str:
    return "stop" if ended else "length"


def _usage(prompt: int, completion: int) -> dict[str, int]:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
