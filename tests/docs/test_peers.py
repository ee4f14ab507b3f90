"""`benchmarks/peers.toml` pins every peer and says when its releases were looked at."""

from __future__ import annotations

import datetime
import tomllib
from pathlib import Path

PEERS = Path(__file__).resolve().parents[2] / "benchmarks" / "peers.toml"


def test_every_environment_has_pins_and_a_date() -> None:
    tables = tomllib.loads(PEERS.read_text(encoding="utf-8"))
    assert len(tables) >= 9
    for name, table in tables.items():
        assert isinstance(table["looked_at"], datetime.date), name
        assert all("==" in requirement for requirement in table["install"]), name
        assert set(table) <= {"install", "looked_at", "python"}, name
