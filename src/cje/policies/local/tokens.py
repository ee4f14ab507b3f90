"""Convert texts to the scored tokens, by the same rules as for servers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from cje.errors import CJEError, require_extra
from cje.models import BadOutputError
from cje.policies.answers import Boundary, Ending
from cje.policies.config import PolicyConfig, render_prompt
from cje.policies.event import refuse_control_text, refuse_inside_token, scored_event
from cje.policies.local.packing import Item
from cje.policies.scored_tokens import ScoredToken, Span, find_response

__all__ = ["Prepared", "Tokeniser"]


@dataclass(frozen=True)
class Prepared:
    """The tokens of a row, and how its first response token was found."""

    item: Item
    boundary: Boundary


class Tokeniser:
    """A model's tokeniser and chat template.

    Parameters
    ----------
    folder : Path
        The model's folder.
    longest : int
        Tokens that the model can read.
    size : int, optional
        Of the model's vocabulary, which can be larger than the tokeniser's.
    """

    def __init__(self, folder: Path, longest: int, size: int | None = None) -> None:
        transformers = require_extra("transformers", "local", "provider: transformers")
        self.folder, self.longest = folder, longest
        try:
            self._made: Any = transformers.AutoTokenizer.from_pretrained(
                folder, local_files_only=True
            )
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise CJEError(
                "the model's tokeniser cannot be read", where=str(folder),
                hint=f"{type(error).__name__}: save the tokeniser beside the model with "
                "save_pretrained",
            ) from error  # fmt: skip
        self.eos: str | None = self._made.eos_token
        self.size = len(self._made) if size is None else size

    # texts --------------------------------------------------------------------------------------

    @cached_property
    def specials(self) -> tuple[str, ...]:
        """Texts that the tokeniser reads as control tokens."""
        added = self._made.added_tokens_decoder.values()
        return tuple(sorted(str(token.content) for token in added if token.special))

    @cached_property
    def _begins_with(self) -> tuple[int, ...]:
        """The token that the tokeniser puts before a text by default (BOS, or nothing)."""
        plain = self._made("a", add_special_tokens=False)["input_ids"]
        whole = self._made("a")["input_ids"]
        for at in range(len(whole)):
            if whole[at : at + len(plain)] == plain:
                return tuple(whole[:at])
        return ()

    def resolved(self, config: PolicyConfig) -> PolicyConfig:
        """The configuration with ``template: auto`` replaced by the tokeniser's chat template.

        ``eos: auto`` is then the tokeniser's end token, if it has a chat template.
        """
        if config.template != "auto":
            return config
        template = "chat" if self._made.chat_template else "raw"
        eos = config.eos
        if eos == "auto":
            eos = self.eos if template == "chat" else None
        kept = "auto" if template == "chat" else "raw"
        return config.model_copy(update={"eos": eos, "template": kept})

    def render(self, config: PolicyConfig, context: str) -> str:
        """The exact text that the model continues."""
        if config.template != "auto":
            return render_prompt(config, context)
        messages = [{"role": "user", "content": context}]
        if config.system_prompt:
            messages.insert(0, {"role": "system", "content": config.system_prompt})
        return self.chat(messages, where=config.name)

    def chat(self, messages: Sequence[dict[str, str]], *, where: str) -> str:
        """A conversation in the model's own chat template, up to where its answer begins."""
        if not self._made.chat_template:
            return "\n\n".join(message["content"] for message in messages)
        try:
            text = self._made.apply_chat_template(
                list(messages), tokenize=False, add_generation_prompt=True
            )
        except Exception as error:  # the template is code from the model's author
            raise CJEError(
                "the model's chat template cannot be rendered", where=where,
                hint=f"{error}; or name a template: raw, chatml, llama3, or a Jinja file",
            ) from error  # fmt: skip
        return str(text)

    # tokens -------------------------------------------------------------------------------------

    def encode(self, text: str, *, bos: bool | None = None) -> list[int]:
        """Token ids of a prompt; BOS as `bos` says (None: unless the text begins with it)."""
        return [*self._before(text, bos), *self.plain(text)]

    def plain(self, text: str) -> list[int]:
        """Token ids of a text alone."""
        return list(self._made(text, add_special_tokens=False)["input_ids"])

    def decode(self, ids: Sequence[int]) -> str:
        """The text of some tokens, control tokens left out, character for character."""
        return str(
            self._made.decode(
                list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
            )
        )

    def text_of(self, token: int) -> str:
        """The text of one token, control tokens included."""
        return str(self._made.decode([token], clean_up_tokenization_spaces=False))

    def stops(self, config: PolicyConfig) -> frozenset[int]:
        """Tokens that end a response: the model's own, and the configured end of sequence."""
        found = set(self.ends)
        if config.eos_text:
            ids = self.plain(config.eos_text)
            found |= set(ids) if len(ids) == 1 else set()
        return frozenset(found)

    @cached_property
    def ends(self) -> frozenset[int]:
        """The model's own end tokens."""
        file = self.folder / "generation_config.json"
        listed: Any = None
        if file.is_file():
            listed = json.loads(file.read_text(encoding="utf-8")).get("eos_token_id")
        ids = listed if isinstance(listed, list) else [listed]
        return frozenset(i for i in [*ids, self._made.eos_token_id] if isinstance(i, int))

    def _before(self, text: str, bos: bool | None) -> tuple[int, ...]:
        begins = self._begins_with
        if bos and not begins and self._made.bos_token_id is not None:
            begins = (int(self._made.bos_token_id),)
        written = bool(self._made.bos_token) and text.startswith(str(self._made.bos_token))
        if bos is False or (bos is None and written):
            return ()
        return begins

    def prepare(
        self,
        config: PolicyConfig,
        context: str,
        response: str,
        *,
        token_ids: Sequence[int] | None = None,
        complete: bool = True,
        ending: Ending | None = None,
        end_text: str | None = None,
    ) -> Prepared:
        """The tokens of one row.

        Raises
        ------
        BadOutputError
            For the same reasons as for a server's answer.
        """
        prompt = self.render(config, context)
        event = scored_event(
            config.eos_text, token_ids=token_ids, complete=complete, ending=ending,
            end_text=end_text,
        )  # fmt: skip
        if token_ids is not None and event.by_ids:
            return self._by_ids(config, prompt, token_ids, event.end, response)
        refuse_control_text(config, response, self.specials)
        return self._by_text(config, prompt, prompt + response + event.end)

    def _by_ids(
        self,
        config: PolicyConfig,
        prompt: str,
        token_ids: Sequence[int],
        end: str,
        response: str,
    ) -> Prepared:
        ids = list(token_ids)
        if end:
            last = self.plain(end)
            if last and ids[-len(last) :] != last:
                ids += last
        if not ids:
            raise BadOutputError("the response has no tokens", reason="empty_response")
        known = all(type(i) is int and 0 <= i < self.size for i in ids)
        if not known or self.decode(ids).strip() != response.strip():
            raise BadOutputError(
                f"{config.name}: the logged token ids are not the response's text in this model's "
                "vocabulary", reason="bad_token_id",
                hint="they come from another tokeniser: leave them out to score the text",
            )  # fmt: skip
        return self._checked(config, self.encode(prompt, bos=config.bos), ids, "token_ids")

    def _by_text(self, config: PolicyConfig, prompt: str, full: str) -> Prepared:
        tokens = self._scored(full, config.bos)
        try:
            span = find_response(tokens, prompt, full)
        except BadOutputError as error:
            if error.reason != "boundary_unknown":
                raise
            span = find_response(
                tokens, prompt, full, prompt_ids=self.encode(prompt, bos=config.bos),
                full_ids=self.encode(full, bos=config.bos),
            )  # fmt: skip
        refuse_inside_token(config, span)
        ids = [int(token.id) for token in tokens if token.id is not None]
        return self._checked(config, ids[: span.start], ids[span.start :], span.boundary)

    def _checked(
        self, config: PolicyConfig, prompt: list[int], response: list[int], boundary: Boundary
    ) -> Prepared:
        if not prompt:
            raise BadOutputError(
                "the response starts at the first token, which has no log-prob",
                reason="no_context",
            )
        if len(prompt) + len(response) - 1 > self.longest:
            raise BadOutputError(
                f"{config.name}: prompt and response have {len(prompt) + len(response)} tokens, "
                f"the model reads {self.longest}", reason="context_too_long",
            )  # fmt: skip
        return Prepared(Item(tuple(prompt), tuple(response)), boundary)

    def _scored(self, text: str, bos: bool | None) -> list[ScoredToken]:
        """The tokens of a text with their texts, as a server would report them."""
        fast = bool(getattr(self._made, "is_fast", False))
        made = self._made(text, add_special_tokens=False, return_offsets_mapping=fast)
        texts = _texts(text, made["offset_mapping"]) if fast else None
        ids = made["input_ids"]
        before = [ScoredToken("", int(i), None) for i in self._before(text, bos)]
        named: Sequence[str | None] = [None] * len(ids) if texts is None else texts
        return before + [ScoredToken(t, int(i), None) for t, i in zip(named, ids, strict=True)]


def _texts(text: str, offsets: Sequence[tuple[int, int]]) -> list[str] | None:
    """Each token's part of the text; None if the parts do not add up to the text.

    A character of several tokens belongs to the last of them, as on servers.
    """
    parts, at = [], 0
    for number, (begin, end) in enumerate(offsets):
        if number + 1 < len(offsets):
            end = min(end, offsets[number + 1][0])
        if begin > at or end < at:
            return None
        parts.append(text[at:end])
        at = end
    return parts if at == len(text) else None


def response_span(tokens: int) -> Span:
    """The span of a response of `n` tokens after one token of prompt."""
    return Span(1, 1 + tokens, "exact")
