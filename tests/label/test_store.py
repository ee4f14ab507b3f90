"""The labels file: nothing lost, nothing doubled, every answer with its circumstances."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from cje import analyze_dataset
from cje.cli.main import app
from cje.data.dataset import Dataset
from cje.data.label_store import attach_labels, is_label_store, read_label_store
from cje.errors import CJEError
from cje.label import store as store_module
from cje.label.files import export_labels, import_labels, write_sheet
from cje.label.scale import AnswerScale
from cje.label.sheets import read_table
from cje.label.store import Conflict, Store
from cje.label.study import Study, StudyOptions
from tests.label.conftest import CAND, KEYS, PROD, put

Make = Callable[..., Study]


def path_of(study: Study) -> Path:
    return Path(study.store.read("PRAGMA database_list")[0]["file"])


def label_all(study: Study, rater: str, word: Callable[[int], str | None], most: int = 999) -> int:
    done = 0
    while done < most and (item := study.next_item(rater, "tab-0001")) is not None:
        put(study.store, rater, item, word(done))
        done += 1
    return done


# ---- giving out and keeping -------------------------------------------------------------------


def test_every_record_has_its_circumstances(make: Make) -> None:
    study = make(rubric="be fair")
    item = study.next_item("alice", "tab-0001")
    put(study.store, "alice", item, "4", note="odd")
    record = dict(study.store.read("SELECT * FROM answer")[0])
    assert record["rater"] == "alice"
    assert (record["value"], record["word"], record["note"]) == (4.0, "4", "odd")
    assert record["seconds"] == 3.0
    assert record["at"].endswith("+00:00")
    assert record["design"] == "random"
    assert record["propensity"] == pytest.approx(40 / 120)
    assert record["sides"] in ("ab", "ba")
    assert len(record["rubric"]) == 16


def test_two_tabs_of_one_rater_get_different_items(make: Make) -> None:
    study = make()
    first, second = (study.next_item("alice", f"tab-000{k}") for k in (1, 2))
    assert first.id != second.id
    assert study.next_item("alice", "tab-0001").id == first.id  # a reload keeps the item


def test_an_answer_from_a_second_tab_does_not_overwrite_the_first(make: Make) -> None:
    study = make(count=1)
    first = study.next_item("alice", "tab-0001")
    again = study.next_item("alice", "tab-0002")  # nothing else is left: the other tab takes over
    assert first.id == again.id
    put(study.store, "alice", first, "5")
    with pytest.raises(Conflict):
        put(study.store, "alice", again, "1")
    assert [r["value"] for r in study.store.read("SELECT value FROM latest")] == [5.0]


def test_sending_an_answer_again_changes_nothing(make: Make) -> None:
    study = make()
    item = study.next_item("alice", "tab-0001")
    key = next(KEYS)
    numbers = [
        study.store.answer("alice", item.id, word="2", revision=0, key=key) for _ in range(3)
    ]
    assert len(set(numbers)) == 1
    assert len(study.store.read("SELECT 1 FROM answer")) == 1


def test_a_changed_answer_keeps_its_history(make: Make) -> None:
    study = make()
    item = study.next_item("alice", "tab-0001")
    put(study.store, "alice", item, "2")
    put(study.store, "alice", study.store.look("alice", item.id), "4")
    assert [r[0] for r in study.store.read("SELECT value FROM answer ORDER BY id")] == [2.0, 4.0]
    assert [r[0] for r in study.store.read("SELECT value FROM latest")] == [4.0]


def test_undo_withdraws_the_last_answer_and_hands_the_item_back(make: Make) -> None:
    study = make()
    items = []
    for word in ("1", "2"):
        items.append(study.next_item("alice", "tab-0001"))
        put(study.store, "alice", items[-1], word)
    back = study.store.undo("alice", next(KEYS))
    assert back is not None
    assert back.id == items[1].id
    assert [r[0] for r in study.store.read("SELECT value FROM latest")] == [1.0]
    put(study.store, "alice", back, "5")
    assert [r[0] for r in study.store.read("SELECT value FROM latest ORDER BY id")] == [1.0, 5.0]
    assert study.store.undo("nobody", next(KEYS)) is None


def test_a_row_is_labelled_by_as_many_raters_as_asked_for(make: Make) -> None:
    study = make(count=30, overlap=0.5)
    for rater in ("alice", "bob", "carol"):
        label_all(study, rater, lambda k: str(1 + k % 5))
    per_item = study.store.read(
        "SELECT i.wanted, count(l.id) AS n FROM item i LEFT JOIN latest l ON l.item = i.id "
        "GROUP BY i.id"
    )
    assert all(r["n"] == r["wanted"] for r in per_item)
    assert 5 <= sum(r["wanted"] == 2 for r in per_item) <= 25
    assert study.finished


def test_a_third_rater_breaks_a_tie_and_does_not_enter_the_mean(make: Make) -> None:
    study = make(count=10, overlap=1.0, third=True)
    label_all(study, "alice", lambda k: "1")
    label_all(study, "bob", lambda k: "5" if k < 3 else "1")
    assert label_all(study, "carol", lambda k: "5") == 3
    stored = read_label_store(path_of(study))
    assert {r["rater"] for r in stored.rows} == {"alice", "bob"}
    assert len(study.store.read("SELECT 1 FROM latest WHERE role = 'third'")) == 3


def test_a_majority_target_counts_the_third_rater(make: Make) -> None:
    study = make(count=10, overlap=1.0, third=True, target="majority")
    label_all(study, "alice", lambda k: "1")
    label_all(study, "bob", lambda k: "5" if k < 3 else "1")
    label_all(study, "carol", lambda k: "5")
    values = [r["oracle_label"] for r in read_label_store(path_of(study)).rows]
    assert sorted(values) == [1.0] * 7 + [5.0] * 3


def test_many_raters_at_once_lose_nothing_and_double_nothing(make: Make) -> None:
    study = make(count=120)
    threads = [
        threading.Thread(target=label_all, args=(study, f"rater {k}", lambda _: "3"))
        for k in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts = study.store.read("SELECT item, count(*) AS n FROM latest GROUP BY item")
    assert len(counts) == 120
    assert all(r["n"] == 1 for r in counts)


def test_an_abandoned_item_is_free_again_after_the_lease(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = make(count=1)
    held = study.next_item("alice", "tab-0001")
    assert study.next_item("bob", "tab-0002") is None
    monkeypatch.setattr(store_module, "LEASE_SECONDS", -1.0)
    taken = study.next_item("bob", "tab-0002")
    assert taken.id == held.id
    with pytest.raises(Conflict):
        put(study.store, "alice", held, "3")


def test_an_answer_off_the_scale_is_refused_and_not_kept(make: Make) -> None:
    study = make()
    item = study.next_item("alice", "tab-0001")
    for word in ("6", "0", "good", "", "nan", "1e3"):
        with pytest.raises(CJEError, match="not on the scale"):
            put(study.store, "alice", item, word)
    assert study.store.read("SELECT 1 FROM answer") == []


def test_kill_minus_nine_loses_no_answer(make: Make, tmp_path: Path) -> None:
    study = make()
    path = path_of(study)
    study.store.close()
    code = f"""
import os, signal
from pathlib import Path
from cje.label.store import Store
store = Store.open(Path({str(path)!r}))
for k in range(25):
    item = store.take("alice", "tab-0001")
    store.answer("alice", item.id, word="3", revision=0, key=f"key-{{k:06d}}")
    print(item.id, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == -9
    answered = {int(line) for line in done.stdout.split()}
    kept = {r["item"] for r in Store.open(path).read("SELECT item FROM latest")}
    assert kept == answered
    assert len(kept) == 25


# ---- side by side -----------------------------------------------------------------------------


def test_the_winner_does_not_depend_on_the_side_it_stood_on(make: Make) -> None:
    study = make(count=40, pairs=True, baseline=PROD, candidate=CAND)
    sides = set()
    while (item := study.next_item("alice", "tab-0001")) is not None:
        sides.add(item.sides)
        numbers = [int(t.split()[-1]) for t in (item.response, item.response_b or "")]
        assert numbers[0] % 2 == 1  # the candidate comes first in the store
        put(study.store, "alice", item, "A" if item.sides == "ab" else "B")
    assert sides == {"ab", "ba"}
    pairs = read_label_store(path_of(study)).pairs
    assert len(pairs) == 40
    assert {(p["policy_a"], p["winner"], p["value"]) for p in pairs} == {(CAND, "a", 1.0)}


# ---- reading ----------------------------------------------------------------------------------


def test_analyze_reads_the_labels_file(make: Make, data: Dataset) -> None:
    study = make(count=80, design="stratified")
    label_all(study, "alice", lambda k: str(1 + k % 5))
    result = analyze_dataset(data_rows(), labels=path_of(study), judge_scale=(0, 1), anytime=True,
                             planned_labels=200)  # fmt: skip
    assert set(result.policies) == {PROD, CAND}
    assert 1.0 <= float(result.estimates[0]) <= 5.0
    assert sum(result.metadata["n_labels"].values()) == 80
    assert len(result.metadata["anytime"]["looks"]) == 3


def data_rows() -> list[dict[str, object]]:
    from tests.label.conftest import rows

    return rows()


def test_the_probability_of_a_study_stopped_early_is_that_of_the_answered_part(
    make: Make, data: Dataset
) -> None:
    study = make(count=40)
    label_all(study, "alice", lambda k: "3", most=10)
    joined = attach_labels(data, read_label_store(path_of(study)))
    assert joined.n_labelled == 10
    assert joined.label_propensity is not None
    np.testing.assert_allclose(joined.label_propensity[joined.is_labelled], 10 / 120)


def test_an_active_study_goes_on_where_it_was_stopped(make: Make, data: Dataset) -> None:
    study = make(count=60, design="active")
    label_all(study, "alice", lambda k: str(1 + k % 5), most=30)
    path = path_of(study)
    visits = [tuple(r) for r in study.store.read("SELECT unit, propensity, shown FROM visit")]
    study.store.close()
    again = Study.open(path, data)
    label_all(again, "alice", lambda k: str(1 + k % 5))
    after = [tuple(r) for r in again.store.read("SELECT unit, propensity, shown FROM visit")]
    assert after[: len(visits)] == visits
    assert len({unit for unit, _, _ in after}) == len(after)
    labels = read_label_store(path)
    assert len(labels.rows) >= 50
    assert attach_labels(data, labels).n_labelled == len(labels.rows)


def test_skips_are_counted_bounded_and_warned_about_where_they_differ(make: Make) -> None:
    study = make(count=100)
    while (item := study.next_item("alice", "tab-0001")) is not None:
        number = int(item.response.split()[-1])
        skipped = number % 2 == 1 and number % 3 == 0  # the candidate's alone
        put(study.store, "alice", item, None if skipped else str(1 + number % 5))
    result = analyze_dataset(data_rows(), labels=path_of(study), judge_scale=(0, 1))
    (found,) = [f for f in result.findings if f.code == "label-skips"]
    assert found.severity == "warning"
    assert found.details["skips"][CAND] > 5
    low, high = found.details["bounds"][CAND]
    value = float(result.estimates[result.policies.index(CAND)])
    assert low < value < high


def test_a_labels_file_is_known_by_its_content(make: Make, tmp_path: Path) -> None:
    study = make()
    assert is_label_store(path_of(study))
    other = tmp_path / "other.db"
    sqlite3.connect(other).execute("CREATE TABLE t (x)").connection.commit()
    assert not is_label_store(other)
    with pytest.raises(CJEError, match="not a labels file"):
        Store.open(other)
    with pytest.raises(CJEError, match="not a labels file"):
        read_label_store(other)


def test_labels_of_other_data_are_refused(make: Make) -> None:
    study = make()
    label_all(study, "alice", lambda k: "3", most=12)
    from tests.label.conftest import rows

    other = [row | {"prompt_id": "x" + str(row["prompt_id"])} for row in rows()]
    with pytest.raises(CJEError, match="rows that the data do not have"):
        analyze_dataset(other, labels=path_of(study), judge_scale=(0, 1))


# ---- files ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["csv", "xlsx"])
def test_a_sheet_goes_out_blind_and_comes_back(make: Make, tmp_path: Path, kind: str) -> None:
    study = make(count=12)
    sheet = tmp_path / f"sheet.{kind}"
    assert write_sheet(path_of(study), sheet, "bob") == 12
    table = read_table(sheet)
    assert "SENTINEL" not in str(table)
    assert all(str(row["response"]).startswith("answer") for row in table)
    assert study.next_item("alice", "tab-0001") is None  # the items are bob's
    frame = pl.DataFrame(
        {"item": [r["item"] for r in table], "label": ["4"] * 10 + ["", "9"]}, strict=False
    )
    frame.write_csv(tmp_path / "back.csv")
    done = import_labels(path_of(study), tmp_path / "back.csv", rater="bob")
    assert (done.kept, done.empty, len(done.refused)) == (10, 1, 1)
    assert "row 12" in done.refused[0]
    again = import_labels(path_of(study), tmp_path / "back.csv", rater="bob")
    assert again.kept == 10
    assert len(study.store.read("SELECT 1 FROM answer")) == 10


def test_a_sheet_without_items_says_why_and_what_to_do(make: Make, tmp_path: Path) -> None:
    active = make(design="active", count=20)
    with pytest.raises(CJEError, match=r"one by one.*on the page.*--design random or stratified"):
        write_sheet(path_of(active), tmp_path / "a.csv", "bob")
    drawn = make(count=12)
    assert write_sheet(path_of(drawn), tmp_path / "b.csv", "bob") == 12
    with pytest.raises(CJEError, match=r"labelled or with a rater.*cje labels import"):
        write_sheet(path_of(drawn), tmp_path / "c.csv", "alice")


def test_a_formula_in_a_text_stays_text(tmp_path: Path, data: Dataset) -> None:
    from cje.data import read

    hostile = ['=HYPERLINK("http://x","y")', "+1+1", "@SUM(A1)", "-2+3", "\t=1"]
    rows = [
        {"prompt_id": i, "policy": "p", "judge_score": 0.5, "prompt": t, "response": t}
        for i, t in enumerate(hostile)
    ]
    study = Study.create(
        tmp_path / "h.db", read(rows, text=True), StudyOptions(count=5, scale="1-5")
    )
    write_sheet(tmp_path / "h.db", tmp_path / "h.csv", "bob")
    texts = [r["response"] for r in read_table(tmp_path / "h.csv")]
    assert all(t.startswith("'") for t in texts)
    study.store.close()


def test_the_cells_of_an_excel_sheet_are_never_formulas(tmp_path: Path) -> None:
    import openpyxl

    from cje.label.sheets import write_table

    write_table(tmp_path / "x.xlsx", ("item", "prompt"), [{"item": 1, "prompt": "=1+1"}])
    cell = openpyxl.load_workbook(tmp_path / "x.xlsx").active["B2"]
    assert (cell.value, cell.data_type) == ("=1+1", "s")


def test_a_label_studio_export_is_taken_in(make: Make, tmp_path: Path) -> None:
    study = make(count=120)
    (tmp_path / "ls.json").write_text(
        '[{"data": {"prompt_id": "SENTINEL-id-3", "policy": "SENTINEL-cand"}, "annotations": '
        '[{"completed_by": {"email": "eve"}, "result": [{"value": {"rating": 4}}]}]},'
        '{"data": {"prompt_id": "SENTINEL-id-4", "policy": "SENTINEL-cand"}, "annotations": '
        '[{"completed_by": 7, "was_cancelled": true, "result": []}]}]'
    )
    done = import_labels(path_of(study), tmp_path / "ls.json")
    assert (done.kept, done.refused) == (1, ())
    (row,) = read_label_store(path_of(study)).rows
    assert (row["rater"], row["oracle_label"], row["policy"]) == ("eve", 4.0, CAND)


def test_exports_have_labels_or_the_whole_history(make: Make, tmp_path: Path) -> None:
    study = make(count=5)
    item = study.next_item("alice", "tab-0001")
    put(study.store, "alice", item, "2")
    put(study.store, "alice", study.store.look("alice", item.id), None)
    put(study.store, "alice", study.store.look("alice", item.id), "3")
    assert export_labels(path_of(study), tmp_path / "a.csv") == 1
    assert export_labels(path_of(study), tmp_path / "a.parquet", history=True) == 3
    assert pl.read_parquet(tmp_path / "a.parquet")["kind"].to_list() == ["label", "skip", "label"]
    joined = analyze_columns(tmp_path / "a.csv")
    assert joined["oracle_label"].to_list() == [3.0]


def analyze_columns(path: Path) -> pl.DataFrame:
    return pl.read_csv(path)


def test_the_commands_export_and_refuse_with_a_message(make: Make, tmp_path: Path) -> None:
    from typer.testing import CliRunner

    study = make(count=5)
    put(study.store, "alice", study.next_item("alice", "tab-0001"), "2")
    run = CliRunner().invoke
    done = run(app, ["labels", "export", str(path_of(study)), str(tmp_path / "o.csv")])
    assert done.exit_code == 0
    assert "1 rows written" in done.output
    failed = run(app, ["labels", "export", str(tmp_path / "none.db"), str(tmp_path / "o.csv")])
    assert isinstance(failed.exception, CJEError)


# ---- scales -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words", "values"),
    [
        ("1-5", ("1", "2", "3", "4", "5"), (1.0, 5.0)),
        ("pass/fail", ("fail", "pass"), (0.0, 1.0)),
        ("yes/no", ("no", "yes"), (0.0, 1.0)),
        ("bad, fair, good", ("bad", "fair", "good"), (0.0, 2.0)),
        ("0-100", (), (0.0, 100.0)),
        ("-3 to 3", tuple(str(k) for k in range(-3, 4)), (-3.0, 3.0)),
    ],
)
def test_scales_are_read_from_text(
    text: str, words: tuple[str, ...], values: tuple[float, float]
) -> None:
    scale = AnswerScale.parse(text)
    assert scale.words == words
    assert (scale.low, scale.high) == values
    assert AnswerScale.from_json(scale.to_json()) == scale


@pytest.mark.parametrize("text", ["", "good", "a,a", "5-1", "a,,b", ",".join("abcdefghijkl")])
def test_an_impossible_scale_is_refused(text: str) -> None:
    with pytest.raises(CJEError):
        AnswerScale.parse(text)


@pytest.mark.parametrize(
    "options",
    [
        {"count": 0}, {"count": 9_999}, {"design": "nearest"}, {"overlap": 1.5}, {"third": True},
        {"baseline": PROD}, {"pairs": True}, {"target": "median"},
        {"baseline": PROD, "candidate": "nobody"},
    ],
)  # fmt: skip
def test_a_study_that_makes_no_sense_is_refused_before_a_file_is_made(
    make: Make, options: dict[str, object], tmp_path: Path
) -> None:
    with pytest.raises(CJEError):
        make(**options)
    assert not list(tmp_path.glob("*.db"))


def test_the_gate_reads_the_labels_file(make: Make, tmp_path: Path) -> None:
    from typer.testing import CliRunner

    study = make(count=120, design="paired", baseline=PROD, candidate=CAND)
    while (item := study.next_item("alice", "tab-0001")) is not None:
        number = int(item.response.split()[-1])
        put(study.store, "alice", item, str(4 + number % 3 // 2 if number % 2 else 1 + number % 2))
    pl.DataFrame(data_rows()).write_ndjson(tmp_path / "d.jsonl")
    done = CliRunner().invoke(app, [
        "gate", str(tmp_path / "d.jsonl"), "--labels", str(path_of(study)), "--baseline", PROD,
        "--candidate", CAND, "--judge-scale", "0-1",
    ])  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "PASS" in done.output
