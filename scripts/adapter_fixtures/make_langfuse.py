"""Scores as Langfuse's API models serialise them: python make_langfuse.py OUT (needs: langfuse)."""

import datetime
import json
import sys

from langfuse import api

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def common(i, name, source, author):
    return {
        "id": f"s{i}-{name}", "name": name, "source": source, "timestamp": NOW, "created_at": NOW,
        "updated_at": NOW, "environment": "default", "author_user_id": author,
    }  # fmt: skip


def write(name, scores):
    data = [json.loads(score.json(by_alias=True)) for score in scores]
    with open(f"{sys.argv[1]}/{name}", "w") as stream:
        json.dump({"data": data, "meta": {"totalItems": len(data)}}, stream, indent=1)


second, third = [], []
for i in range(4):
    rows = [("quality", 0.25 * i, "EVAL", None)]
    if i in (1, 2):
        rows.append(("review", float(i > 1), "ANNOTATION", "ann"))
    for name, value, source, author in rows:
        shared = common(i, name, source, author)
        second.append(api.Score_Numeric(**shared, trace_id=f"trace-{i}", value=value))
        subject = api.ScoreSubjectV3_Trace(id=f"trace-{i}")
        third.append(api.ScoreV3_Numeric(**shared, project_id="p", value=value, subject=subject))
write("scores.json", second)
write("scores_v3.json", third)
