"""The labelling page's server: blind, guarded, one answer per request."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cje.label.app import make_app
from cje.label.guard import MOST_BYTES, is_loopback, served_names
from cje.label.study import Study
from tests.label.conftest import CAND, KEYS, PROD, SCORE, put
from tests.label.test_store import path_of

testclient = pytest.importorskip("starlette.testclient")
ORIGIN = {"origin": "http://127.0.0.1:8675"}
TOKEN = "organiser-token-for-tests"


class Client:
    """A test client with what a browser would send."""

    def __init__(self, study: Study, organiser: Any, rater_token: str | None = None) -> None:
        app = make_app(study, organiser, hosts=served_names("127.0.0.1"), rater_token=rater_token,
                       organiser_token=TOKEN)  # fmt: skip
        self.http = testclient.TestClient(app, base_url="http://127.0.0.1:8675")
        self.received = b""

    def get(self, path: str, **options: Any) -> Any:
        return self._seen(self.http.get(path, follow_redirects=False, **options))

    def post(self, path: str, body: Any, headers: dict[str, str] | None = None) -> Any:
        return self._seen(self.http.post(path, json=body, headers={**ORIGIN, **(headers or {})}))

    def _seen(self, reply: Any) -> Any:
        self.received += reply.content + str(reply.headers).encode()
        return reply

    def next(self, rater: str = "alice", tab: str = "tab-0001") -> Any:
        return self.get(f"/api/next?rater={rater}&tab={tab}").json()["item"]

    def answer(self, item: Any, word: Any, /, **more: Any) -> Any:
        body = {"rater": "alice", "item": item["id"], "revision": item["revision"], "word": word,
                "key": next(KEYS), "note": "", "seconds": 2.5}  # fmt: skip
        return self.post("/api/answer", body | more)


@pytest.fixture
def client(make: Callable[..., Study], organiser_of: Any) -> Client:
    study = make(count=40, design="paired", baseline=PROD, candidate=CAND, overlap=0.3)
    return Client(study, organiser_of(study, path_of(study), margin=0.5))


def test_no_byte_that_a_rater_receives_reveals_policy_score_or_another_rater(
    client: Client,
) -> None:
    for rater in ("alice", "SENTINEL-bob"):
        while (item := client.next(rater)) is not None:
            client.answer(item, "3", rater=rater)
    client.received = b""
    for path in ("/", "/r/carol", "/api/study", "/assets/rater.js", "/assets/text.js"):
        assert client.get(path).status_code == 200
    client.post("/api/undo", {"rater": "alice", "key": next(KEYS)})
    item = client.next()
    client.get(f"/api/item?rater=alice&item={item['id']}")
    client.answer(item, "off the scale")
    client.answer(item, "4", revision=99)
    client.get("/api/organiser")
    client.get("/api/item?rater=carol&item=1")
    client.get("/nothing")
    assert len(client.received) > 20_000
    assert b"SENTINEL" not in client.received
    assert str(SCORE).encode() not in client.received
    assert TOKEN.encode() not in client.received


def test_a_rater_sees_their_own_answers_only(client: Client) -> None:
    item = client.next("alice")
    client.answer(item, "5", note="mine")
    other = client.get(f"/api/item?rater=bob&item={item['id']}")
    assert other.status_code == 409
    own = client.get(f"/api/item?rater=alice&item={item['id']}").json()["item"]
    assert (own["answer"], own["note"]) == ("5", "mine")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"host": "127.0.0.1.evil.example:8675"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1:9999"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"content-type": "text/plain"}, 415),
    ],
)
def test_requests_from_elsewhere_are_refused(
    client: Client, headers: dict[str, str], status: int
) -> None:
    item = client.next()
    body = json.dumps({"rater": "alice", "item": item["id"], "revision": 0, "word": "3",
                       "key": next(KEYS)})  # fmt: skip
    sent = {**ORIGIN, "content-type": "application/json", **headers}
    assert client.http.post("/api/answer", content=body, headers=sent).status_code == status
    if "content-type" not in headers:
        reply = client.http.get("/api/next?rater=alice&tab=tab-0001", headers=headers)
        assert reply.status_code == status
    assert client.next()["revision"] == 0


def test_an_oversized_body_is_refused_with_and_without_a_length(client: Client) -> None:
    big = b'{"x": "' + b"a" * MOST_BYTES + b'"}'
    sent = {**ORIGIN, "content-type": "application/json"}
    assert client.http.post("/api/answer", content=big, headers=sent).status_code == 413

    def chunks() -> Iterator[bytes]:
        for _ in range(70):
            yield b"a" * 1_000

    assert client.http.post("/api/answer", content=chunks(), headers=sent).status_code == 413


def test_the_organiser_needs_a_token_and_gets_a_cookie_for_it(client: Client) -> None:
    for path in ("/organiser", "/api/organiser"):
        assert client.get(path).status_code == 401
    assert client.get("/enter?as=organiser&token=wrong").status_code == 401
    assert client.get("/enter?as=rater&token=").status_code == 401
    entered = client.get(f"/enter?as=organiser&token={TOKEN}")
    assert entered.status_code == 303
    assert entered.headers["location"] == "/organiser"
    cookie = entered.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert client.get("/organiser").status_code == 200
    assert client.get("/api/organiser").json()["labels"] == 0


def test_an_address_that_others_can_reach_needs_a_token_for_raters(
    make: Callable[..., Study], organiser_of: Any
) -> None:
    study = make()
    client = Client(study, organiser_of(study, path_of(study)), rater_token="rater-token")
    for path in ("/", "/r/alice", "/api/study", "/api/next?rater=alice&tab=tab-0001"):
        assert client.get(path).status_code == 401
    assert client.get("/enter?as=rater&token=rater-token").status_code == 303
    assert client.get("/r/alice").status_code == 200
    assert client.get("/organiser").status_code == 401  # a token of its own


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("localhost", True), ("::1", True), ("127.9.9.9", True),
     ("0.0.0.0", False), ("192.168.1.2", False), ("::", False), ("example.org", False)],
)  # fmt: skip
def test_loopback_addresses_are_recognised(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


@pytest.mark.parametrize(
    "change",
    [
        {"rater": ""}, {"rater": "../x"}, {"rater": "a" * 41}, {"rater": 3}, {"item": "1"},
        {"item": -1}, {"item": True}, {"item": 2**60}, {"revision": None}, {"key": "short"},
        {"key": "x" * 65}, {"note": 5}, {"note": "x" * 5_000}, {"word": ["3"]}, {"word": "99"},
        {"seconds": "soon"},
    ],
)  # fmt: skip
def test_an_answer_that_cannot_be_read_is_refused_with_a_message(
    client: Client, change: dict[str, Any]
) -> None:
    reply = client.answer(client.next(), "3", **change)
    assert reply.status_code in (400, 409)
    assert reply.json()["problem"]
    assert "Traceback" not in reply.text
    assert client.next()["revision"] == 0


@pytest.mark.parametrize("body", [b"", b"[1]", b"{", b"\xff\xfe", b"[" * 50_000])
def test_a_body_that_is_not_a_json_object_is_refused(client: Client, body: bytes) -> None:
    sent = {**ORIGIN, "content-type": "application/json"}
    reply = client.http.post("/api/answer", content=body, headers=sent)
    assert reply.status_code == 400


def test_an_item_number_in_other_digits_is_refused(client: Client) -> None:
    reply = client.get("/api/item", params={"rater": "alice", "item": "\u00b2"})
    assert reply.status_code == 400


def test_every_response_forbids_scripts_of_others_and_framing(client: Client) -> None:
    for path in ("/", "/r/alice", "/api/study", "/nothing", "/organiser"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-frame-options"] == "DENY"
        assert headers["cache-control"] == "no-store"
        assert headers["referrer-policy"] == "no-referrer"


def test_a_conversation_is_shown_turn_by_turn(tmp_path: Any, organiser_of: Any) -> None:
    from cje.data import read
    from cje.label.study import StudyOptions

    prompt = json.dumps([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}])
    rows = [{"prompt_id": i, "policy": "p", "judge_score": 0.5, "prompt": prompt,
             "response": "[not json"} for i in range(3)]  # fmt: skip
    study = Study.create(
        tmp_path / "c.db", read(rows, text=True), StudyOptions(count=3, scale="1-5")
    )
    item = Client(study, organiser_of(study, tmp_path / "c.db")).next()
    assert [t["role"] for t in item["prompt"]] == ["user", "assistant"]
    assert item["responses"] == [[{"role": "", "text": "[not json"}]]


# ---- the organiser's view ---------------------------------------------------------------------


def see(client: Client) -> dict[str, Any]:
    client.get(f"/enter?as=organiser&token={TOKEN}")
    return dict(client.get("/api/organiser").json())


def test_the_organiser_sees_the_answer_and_when_it_is_decided(
    make: Callable[..., Study], organiser_of: Any
) -> None:
    study = make(count=120, design="paired", baseline=PROD, candidate=CAND)
    client = Client(study, organiser_of(study, path_of(study), margin=0.5))
    assert see(client)["decision"] is None
    for k in range(120):
        item = client.next()
        number = int(item["responses"][0][0]["text"].split()[-1])
        client.answer(item, str(4 + (k % 3 == 0) if number % 2 else 1 + k % 2))
        if k == 20:
            early = see(client)
            assert early["problem"] is None
            assert early["decision"]["verdict"] == "UNDECIDED"
            assert not early["looks"][-1]["open"]
    found = see(client)
    assert found["decision"]["verdict"] == "PASS"
    assert found["looks"][-1]["name"] == f"{CAND} - {PROD}"
    assert found["looks"][-1]["low"] > 0
    assert found["labels"] == 120
    assert found["cost"] == 240.0
    assert found["pace_seconds"] == 2.5
    assert found["finished"]


def test_the_organiser_sees_agreement_and_the_raters_do_not(
    make: Callable[..., Study], organiser_of: Any
) -> None:
    study = make(count=10, overlap=1.0)
    client = Client(study, organiser_of(study, path_of(study)))
    for rater in ("alice", "bob"):
        for k in range(10):
            client.answer(client.next(rater), "5" if rater == "bob" and k < 4 else "3", rater=rater)
    found = see(client)
    assert found["agreement"]["items"] == 10
    assert found["agreement"]["same"] == pytest.approx(0.6)
    assert {r["rater"]: r["labels"] for r in found["raters"]} == {"alice": 10, "bob": 10}


def test_side_by_side_answers_give_wins_minus_losses(
    make: Callable[..., Study], organiser_of: Any
) -> None:
    study = make(count=60, pairs=True, baseline=PROD, candidate=CAND)
    client = Client(study, organiser_of(study, path_of(study)))
    for k in range(60):
        item = client.next()
        first = int(item["responses"][0][0]["text"].split()[-1])
        better = "A" if first % 2 else "B"
        client.answer(item, "tie" if k % 6 == 0 else better)
    found = see(client)
    # the answers' mean is 5/6; the estimate also removes what the random order happened to change
    assert found["looks"][0]["value"] == pytest.approx(5 / 6, abs=0.1)
    assert found["decision"]["verdict"] == "PASS"


def test_two_labels_of_one_item_are_one_look_and_cost_twice(
    make: Callable[..., Study], organiser_of: Any
) -> None:
    study = make(count=20, overlap=1.0)
    client = Client(study, organiser_of(study, path_of(study)))
    for rater in ("alice", "bob"):
        for k in range(20):
            item = study.next_item(rater, f"{rater}-tab")
            put(study.store, rater, item, str(1 + k % 5))
    found = see(client)
    assert found["labels"] == 20
    assert found["cost"] == 80.0
    assert not any(look["open"] for look in found["looks"])  # 40 answers, but 20 labelled items
