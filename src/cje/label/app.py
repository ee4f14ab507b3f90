"""The labelling page as an ASGI application (extra `label`: starlette and uvicorn)."""

from __future__ import annotations

import hmac
import json
import math
import re
from functools import partial
from importlib import resources
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from cje.errors import CJEError
from cje.label.guard import Guard
from cje.label.organiser import Organiser
from cje.label.store import Conflict, Item
from cje.label.study import Study

__all__ = ["make_app"]

_RATER = re.compile(r"[\w][\w .\-]{0,39}")
_KEY = re.compile(r"[0-9a-zA-Z\-]{8,64}")
_TYPES = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
_MOST_NOTE = 4_000


def make_app(
    study: Study,
    organiser: Organiser,
    *,
    hosts: set[str],
    rater_token: str | None,
    organiser_token: str,
) -> Guard:
    """The guarded application for one study."""
    pages = _Pages(study, organiser, rater_token, organiser_token)
    app = Starlette(
        routes=[
            Route("/", pages.front),
            Route("/enter", pages.enter),
            Route("/r/{rater}", pages.rater_page),
            Route("/organiser", pages.organiser_page),
            Route("/favicon.ico", pages.no_icon),
            Route("/assets/{name}", pages.asset),
            Route("/api/study", pages.study_facts),
            Route("/api/next", pages.next_item),
            Route("/api/item", pages.one_item),
            Route("/api/answer", pages.answer, methods=["POST"]),
            Route("/api/undo", pages.undo, methods=["POST"]),
            Route("/api/organiser", pages.organiser_facts),
        ],
        exception_handlers={CJEError: _problem, Conflict: _problem},
    )
    return Guard(app, hosts=hosts, rater_token=rater_token, organiser_token=organiser_token)


class _Pages:
    """One method per route. Responses hold texts and the rater's own answers only."""

    def __init__(
        self, study: Study, organiser: Organiser, rater_token: str | None, organiser_token: str
    ) -> None:
        self._study, self._organiser = study, organiser
        self._tokens = {"rater": rater_token, "organiser": organiser_token}

    # ---- pages ------------------------------------------------------------------------------

    async def front(self, request: Request) -> Response:
        return HTMLResponse(_file("front.html"))

    async def enter(self, request: Request) -> Response:
        """Move the token of the printed address from the address into a cookie."""
        role = request.query_params.get("as", "")
        wanted = self._tokens.get(role)
        given = request.query_params.get("token", "")
        if wanted is None or not hmac.compare_digest(given.encode(), wanted.encode()):
            return PlainTextResponse("wrong token", status_code=401)
        target = "/organiser" if role == "organiser" else "/"
        response = Response(status_code=303, headers={"location": target})
        response.set_cookie(f"cje_{role}", wanted, httponly=True, samesite="strict", path="/")
        return response

    async def rater_page(self, request: Request) -> Response:
        _rater(request.path_params["rater"])
        return HTMLResponse(_file("rater.html"))

    async def organiser_page(self, request: Request) -> Response:
        return HTMLResponse(_file("organiser.html"))

    async def no_icon(self, request: Request) -> Response:
        return Response(status_code=204)

    async def asset(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in _ASSETS:
            return PlainTextResponse("not found", status_code=404)
        return Response(_file(name), media_type=_TYPES[name.rpartition(".")[2]])

    # ---- the rater's calls ------------------------------------------------------------------

    async def study_facts(self, request: Request) -> Response:
        store = self._study.store
        assert store.scale is not None
        return JSONResponse({
            "scale": json.loads(store.scale.to_json()), "rubric": store.meta["rubric"],
            "pairs": store.meta["pairs"] == "1",
        })  # fmt: skip

    async def next_item(self, request: Request) -> Response:
        rater, tab = (
            _rater(request.query_params.get("rater")),
            _key(request.query_params.get("tab")),
        )
        item = await run_in_threadpool(self._study.next_item, rater, tab)
        return await self._shown(rater, item)

    async def one_item(self, request: Request) -> Response:
        rater = _rater(request.query_params.get("rater"))
        number = request.query_params.get("item", "")
        if not (number.isascii() and number.isdigit()) or len(number) > 12:
            raise CJEError("the item must be a number")
        item = await run_in_threadpool(self._study.store.look, rater, int(number))
        return await self._shown(rater, item)

    async def answer(self, request: Request) -> Response:
        given = await _body(request)
        rater, note = _rater(given.get("rater")), given.get("note", "")
        word = given.get("word")
        numbers: list[Any] = [given.get(name) for name in ("item", "revision")]
        seconds = given.get("seconds", 0.0)
        if (
            not (word is None or isinstance(word, str | int | float))
            or not isinstance(note, str)
            or len(note) > _MOST_NOTE
            or not all(type(n) is int and 0 <= n < 2**53 for n in numbers)
            or not isinstance(seconds, int | float)
            or not math.isfinite(seconds)
        ):
            raise CJEError("the answer cannot be read")
        keep = partial(
            self._study.store.answer, rater, numbers[0], word=None if word is None else str(word),
            revision=numbers[1], key=_key(given.get("key")), note=note,
            seconds=min(max(float(seconds), 0.0), 86_400.0),
        )  # fmt: skip
        return JSONResponse({"kept": await run_in_threadpool(keep)})

    async def undo(self, request: Request) -> Response:
        given = await _body(request)
        rater = _rater(given.get("rater"))
        item = await run_in_threadpool(self._study.store.undo, rater, _key(given.get("key")))
        return await self._shown(rater, item)

    async def _shown(self, rater: str, item: Item | None) -> Response:
        progress = await run_in_threadpool(self._study.store.progress, rater)
        return JSONResponse({"item": _blind(item), "progress": progress})

    # ---- the organiser's call ---------------------------------------------------------------

    async def organiser_facts(self, request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(self._organiser.view))


def _blind(item: Item | None) -> dict[str, Any] | None:
    """What a rater may see of an item; pairs are in the order of their sides."""
    if item is None:
        return None
    responses = [item.response]
    if item.response_b is not None:
        responses.append(item.response_b)
        if item.sides == "ba":
            responses.reverse()
    return {
        "id": item.id, "prompt": _turns(item.prompt), "responses": [_turns(r) for r in responses],
        "revision": item.revision, "answer": item.answer, "note": item.note,
    }  # fmt: skip


def _turns(text: str) -> list[dict[str, str]]:
    """The turns of a conversation: a text is one turn, a JSON list of messages has one each."""
    if text.lstrip().startswith("["):
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if isinstance(found, list) and found and all(
            isinstance(m, dict) and isinstance(m.get("content"), str) for m in found
        ):  # fmt: skip
            return [{"role": str(m.get("role", "")), "text": m["content"]} for m in found]
    return [{"role": "", "text": text}]


async def _body(request: Request) -> dict[str, Any]:
    try:
        found = json.loads(await request.body())
    except (ValueError, RecursionError) as error:
        raise CJEError("the request is not JSON") from error
    if not isinstance(found, dict):
        raise CJEError("the request is not a JSON object")
    return found


def _rater(name: Any) -> str:
    if not isinstance(name, str) or not _RATER.fullmatch(name):
        raise CJEError("a rater's name must have 1 to 40 letters, digits, spaces, dots or dashes")
    return name


def _key(value: Any) -> str:
    if not isinstance(value, str) or not _KEY.fullmatch(value):
        raise CJEError("the request has no valid key")
    return value


async def _problem(request: Request, error: Exception) -> Response:
    status = 409 if isinstance(error, Conflict) else 400
    hint = error.hint if isinstance(error, CJEError) else None
    what = error.what if isinstance(error, CJEError) else str(error)
    return JSONResponse({"problem": what, "hint": hint}, status_code=status)


_ASSETS = ("rater.js", "organiser.js", "text.js", "front.js", "page.css")


def _file(name: str) -> str:
    return resources.files("cje.label").joinpath("assets", name).read_text(encoding="utf-8")
