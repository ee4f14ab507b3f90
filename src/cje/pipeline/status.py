"""Status of a work folder; can be read while a run is using it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cje.errors import CJEError
from cje.pipeline.lock import is_locked
from cje.pipeline.manifest import read_manifest
from cje.pipeline.store import CallStore, RecipeTotals
from cje.terminal import safe

__all__ = ["RunStatus", "read_status"]


@dataclass(frozen=True)
class RunStatus:
    """Progress of a run."""

    running: bool
    stages: tuple[str, ...]  # finished, in order
    finished: bool
    rows: int
    errors: int
    totals: tuple[RecipeTotals, ...]
    failures: tuple[tuple[str, str, int], ...]
    calls: int
    cost: float

    def text(self) -> str:
        """State, stages, calls and money, one line each."""
        state = "running" if self.running else "finished" if self.finished else "not finished"
        lines = [
            f"state: {state}; {self.rows} rows, {self.errors} with an error",
            f"stages done: {safe('; '.join(self.stages)) or 'none'}",
            f"attempts so far: {self.calls}, cost {self.cost:.4f}",
        ]
        for t in self.totals:
            who = t.identity.get("model") or t.identity.get("provider") or t.identity.get("oracle")
            lines.append(
                f"  {safe(t.stage)} ({safe(who)}): {t.calls} calls finished, "
                f"{t.prompt_tokens} tokens in, {t.completion_tokens} out, cost {t.cost:.4f}"
            )
        lines += [
            f"  given up in {safe(stage)}: {safe(reason)}, {n}"
            for stage, reason, n in self.failures
        ]
        return "\n".join(lines)


def read_status(work_dir: str | Path) -> RunStatus:
    """The state of `work_dir`; a folder without a run is an error."""
    folder = Path(work_dir)
    if not (folder / "store.sqlite").is_file():
        raise CJEError("there is no run in this folder yet", where=str(folder))
    manifest = read_manifest(folder) or {"stages": {}, "files": {}}
    store = CallStore(folder / "store.sqlite", read_only=True)
    try:
        calls, cost = store.spent()
        stages = manifest["stages"]
        last = next(reversed(stages.values()), {"rows": 0, "errors": 0})
        return RunStatus(
            running=is_locked(folder),
            stages=tuple(stages),
            finished=bool(manifest["files"]),
            rows=int(last["rows"]),
            errors=int(last["errors"]),
            totals=tuple(store.totals()),
            failures=tuple(store.failures()),
            calls=calls,
            cost=cost,
        )
    finally:
        store.close()
