"""`LocalChat`: a model in this process with the interface that judges use for servers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from cje.models import JSON, Completion, Endpoint, FatalError, ModelCallError
from cje.models.endpoint_config import EndpointConfig
from cje.policies.local.head import Sampling
from cje.policies.local.model import LocalModel, shared_model
from cje.policies.local.planned import ChatCall, answer_calls

__all__ = ["LocalChat"]

_GATHER = 0.005  # seconds to wait for calls that start at about the same time


class LocalChat:
    """Answers conversations; concurrent calls are written together.

    Parameters
    ----------
    config : EndpointConfig
        A `JudgeConfig` with ``provider: transformers``.
    """

    def __init__(self, config: EndpointConfig) -> None:
        self.endpoint: Endpoint = config.endpoint_record()
        self.model: LocalModel = shared_model(config)
        self._waiting: list[tuple[ChatCall, asyncio.Future[Completion]]] = []
        self._writer: asyncio.Task[None] | None = None

    async def chat(self, messages: Sequence[Mapping[str, str]], **parameters: JSON) -> Completion:
        """One answer; the parameters are those of a chat server."""
        if "response_format" in parameters:
            raise FatalError(
                "a model in this process takes no schema", reason="no_schema", status=400
            )
        wants_top = bool(parameters.get("logprobs"))
        call = ChatCall(
            self.model, self.endpoint.label,
            tuple((message["role"], message["content"]) for message in messages),
            Sampling(float(parameters["temperature"]), float(parameters.get("top_p", 1.0))),
            int(parameters["max_tokens"]), int(parameters.get("seed", 0)),
            int(parameters.get("top_logprobs", 0)) if wants_top else 0,
        )  # fmt: skip
        answer: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
        self._waiting.append((call, answer))
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write())
        return await answer

    async def _write(self) -> None:
        """Answer all waiting calls together, until none waits."""
        await asyncio.sleep(_GATHER)
        while self._waiting:
            lot, self._waiting = self._waiting, []
            passes = answer_calls([call for call, _ in lot])
            try:
                while (part := await asyncio.to_thread(next, passes, None)) is not None:
                    for index, found in part:
                        _hand_over(lot[index][1], found)
            except Exception as error:  # the error concerns the model, so all waiting calls
                for _, answer in lot:
                    _hand_over(answer, error)

    async def post(
        self, path: str, body: Mapping[str, JSON], *, billed: bool = True
    ) -> dict[str, JSON]:
        """Raise: there is no server to post to."""
        raise FatalError("a model in this process has no routes", reason="no_server")

    async def models(self, *, within: float = 10.0) -> list[str]:
        """The name of the only model."""
        return [self.endpoint.model]

    def identity(self) -> dict[str, JSON]:
        """What determines the answers: the weights, by content, and the numerics."""
        from cje.policies.local.weights import model_digest

        return {
            **self.endpoint.identity(),
            "model": model_digest(self.model.folder),
            "dtype": self.model.dtype_name,
            "batch_invariant": self.model.batch_invariant,
        }

    async def aclose(self) -> None:
        """Nothing to close."""


def _hand_over(answer: asyncio.Future[Completion], found: object) -> None:
    if answer.done():
        return  # its caller was cancelled
    if isinstance(found, Completion):
        answer.set_result(found)
    elif isinstance(found, ModelCallError | Exception):
        answer.set_exception(found)
