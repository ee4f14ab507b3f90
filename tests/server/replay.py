"""A server that answers what a real one has answered: the exchanges kept by `make servers`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.server.quirks import Quirks
from tests.server.routes import Refused, Routes

__all__ = ["FOLDER", "Recorded"]

FOLDER = Path(__file__).parents[1] / "fixtures" / "servers"


class Recorded(Routes):
    """Path and body in, the recorded answer or refusal out; anything else is status 410."""

    def __init__(self, name: str) -> None:
        super().__init__(Quirks())
        self.kept: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
        self._answers = {
            _key(exchange["path"], exchange["body"]): exchange
            for exchange in self.kept["exchanges"]
        }

    def answer(self, path: str, body: dict[str, Any], fault: str | None) -> dict[str, Any]:
        """The recorded answer."""
        below = path.removeprefix("/v1") if path.startswith("/v1/") else f"/{path}"
        exchange = self._answers.get(_key(below, body))
        if exchange is None:
            raise Refused(410, f"never recorded: {below} {body}; `RECORD=1 make servers` does")
        if "answer" not in exchange:
            raise Refused(exchange["status"] or 500, exchange["detail"])
        return dict(exchange["answer"])


def _key(path: str, body: dict[str, Any]) -> str:
    asked = {name: value for name, value in body.items() if name != "model"}
    return path + json.dumps(asked, sort_keys=True, ensure_ascii=False)
