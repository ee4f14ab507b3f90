"""Progress of a run: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Protocol, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from cje.terminal import console as safe_console
from cje.terminal import safe

_SILENT_SECONDS = 10.0

__all__ = [
    "BarProgress",
    "LineProgress",
    "Moment",
    "NoProgress",
    "Reporter",
    "TokenMoment",
    "make_reporter",
]


@dataclass(frozen=True)
class Moment:
    """Progress of a stage."""

    rows: int
    total: int
    finished: int  # calls answered in this process
    reused: int  # calls found in the store
    failed: int
    retries: int
    concurrency: int
    cost: float
    waiting: str = ""  # what blocks all calls, if anything

    def text(self, seconds: float) -> str:
        """Rate, errors and cost as text."""
        rate = self.finished / seconds if seconds > 0 else 0.0
        parts = [f"{rate:.0f} calls/s", f"{self.reused} reused"]
        if self.retries:
            parts.append(f"{self.retries} retries")
        if self.failed:
            parts.append(f"{self.failed} errors")
        if self.concurrency:
            parts.append(f"{self.concurrency} at once")
        if self.cost:
            parts.append(f"cost {self.cost:.4f}")
        if self.waiting:
            parts.append(self.waiting)
        return ", ".join(parts)


@dataclass(frozen=True)
class TokenMoment(Moment):
    """Progress of scoring with a model in this process, in tokens."""

    tokens: int = 0
    rows_here: int = 0  # rows scored in this process

    def text(self, seconds: float) -> str:
        """Rows and tokens per second, and problems, as text."""
        seconds = max(seconds, 1e-9)
        rates = f"{self.rows_here / seconds:.0f} rows/s, {self.tokens / seconds:.0f} tokens/s"
        parts = [rates]
        if self.reused:
            parts.append(f"{self.reused} reused")
        if self.failed:
            parts.append(f"{self.failed} errors")
        return ", ".join(parts)


class TimeLeft:
    """Remaining time of a stage; no estimate while nothing moves.

    Parameters
    ----------
    began : float
        When the stage began, in seconds.
    """

    def __init__(self, began: float) -> None:
        self._began = self._moved = began
        self._answered = 0

    def text(self, moment: Moment, now: float) -> str:
        """``about 20 s left``, or the time since the last answer."""
        answered = moment.finished + moment.reused + moment.failed + moment.rows
        if answered != self._answered:
            self._answered, self._moved = answered, now
        silent = now - self._moved
        if moment.waiting or silent > _SILENT_SECONDS:
            return f"no answer for {silent:.0f} s" if silent >= 1.0 else "waiting"
        if not moment.rows:
            return ""
        left = (now - self._began) * (moment.total - moment.rows) / moment.rows
        return f"about {left:.0f} s left"


class Reporter(Protocol):
    """Shows the start of a stage, its progress a few times per second, and its end."""

    def start(self, stage: str, total: int) -> None: ...
    def update(self, stage: str, moment: Moment) -> None: ...
    def done(self, stage: str, note: str) -> None: ...
    def note(self, text: str) -> None: ...
    def close(self) -> None: ...


class NoProgress:
    """Shows nothing."""

    def start(self, stage: str, total: int) -> None: ...
    def update(self, stage: str, moment: Moment) -> None: ...
    def done(self, stage: str, note: str) -> None: ...
    def note(self, text: str) -> None: ...
    def close(self) -> None: ...


class LineProgress:
    """A line when a stage starts and ends, and one every few seconds in between."""

    def __init__(self, stream: TextIO | None = None, every: float = 5.0) -> None:
        self._stream = stream or sys.stderr
        self._every = every
        self._began = self._last = 0.0
        self._left = TimeLeft(0.0)

    def start(self, stage: str, total: int) -> None:
        self._began = self._last = time.monotonic()
        self._left = TimeLeft(self._began)
        self._say(f"{stage}: {total} rows" if total else stage)

    def update(self, stage: str, moment: Moment) -> None:
        now = time.monotonic()
        left = self._left.text(moment, now)
        if now - self._last < self._every:
            return
        self._last = now
        said = [f"{moment.rows}/{moment.total} rows", moment.text(now - self._began), left]
        self._say(f"{stage}: {', '.join(part for part in said if part)}")

    def done(self, stage: str, note: str) -> None:
        said = [f"done in {time.monotonic() - self._began:.1f} s", note]
        self._say(f"{stage}: {', '.join(part for part in said if part)}")

    def note(self, text: str) -> None:
        self._say(text)

    def close(self) -> None: ...

    def _say(self, text: str) -> None:
        self._stream.write(safe(text) + "\n")
        self._stream.flush()


class BarProgress:
    """One bar per stage, with rate, remaining time, errors and cost."""

    def __init__(self, console: Console | None = None) -> None:
        self._progress = Progress(
            TextColumn("{task.description:<15}"),
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TextColumn("{task.fields[left]}"),
            TextColumn("{task.fields[note]}", markup=False),
            console=console or safe_console(stderr=True),
        )
        self._tasks: dict[str, TaskID] = {}
        self._began = 0.0
        self._left = TimeLeft(0.0)
        self._progress.start()

    def start(self, stage: str, total: int) -> None:
        self._began = time.monotonic()
        self._left = TimeLeft(self._began)
        self._tasks[stage] = self._progress.add_task(safe(stage), total=total, note="", left="")

    def update(self, stage: str, moment: Moment) -> None:
        now = time.monotonic()
        self._progress.update(
            self._tasks[stage], completed=moment.rows, total=moment.total,
            note=moment.text(now - self._began), left=self._left.text(moment, now),
        )  # fmt: skip

    def done(self, stage: str, note: str) -> None:
        task = self._tasks[stage]
        total = self._progress.tasks[self._progress.task_ids.index(task)].total
        self._progress.update(task, completed=total, note=note, left="")

    def note(self, text: str) -> None:
        self._progress.console.print(safe(text))

    def close(self) -> None:
        self._progress.stop()


def make_reporter(stream: TextIO | None = None) -> Reporter:
    """A reporter with bars on a terminal and lines elsewhere."""
    stream = stream or sys.stderr
    return BarProgress() if stream.isatty() else LineProgress(stream)
