"""Requests to end a run: signals of this machine, and a file below the storage for others."""

from __future__ import annotations

import json
import signal
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.pipeline.run.supervisor import Stop
from headrace.spark.durable import replace_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

INTERRUPTED = 130
_CODES = {signal.SIGTERM: 0, signal.SIGINT: INTERRUPTED}


@dataclass
class StopRequests:
    """The requests to stop one run."""

    file: Path
    run: str
    happened: threading.Event = field(default_factory=threading.Event)
    """Set by a signal, so that nothing waits any longer."""
    _signal: signal.Signals | None = None

    def current(self) -> Stop | None:
        """Return the request to stop; None without one."""
        if self._signal is not None:
            return Stop(_CODES[self._signal], self._signal.name)
        with suppress(OSError, ValueError, KeyError, TypeError):
            said = json.loads(self.file.read_text(encoding="utf-8"))
            if said["run"] == self.run:
                return Stop(0, f"headrace pipeline stop on {said['host']}")
        return None

    def clear(self) -> None:
        """Delete the file, which was meant for an earlier run or is obeyed."""
        with suppress(OSError):
            self.file.unlink(missing_ok=True)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take SIGTERM and SIGINT as requests; a second SIGINT raises KeyboardInterrupt."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in _CODES}
        self.listen()
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def listen(self) -> None:
        """Install the handlers; again after Spark has installed its own."""
        if threading.current_thread() is threading.main_thread():
            for number in _CODES:
                signal.signal(number, self._take)

    def _take(self, number: int, _: object) -> None:
        if number == signal.SIGINT and self._signal is signal.SIGINT:
            raise KeyboardInterrupt
        self._signal = signal.Signals(number)
        self.happened.set()


def request_stop(file: Path, run: str, host: str) -> None:
    """Write the request to stop a run on another machine. OSError."""
    content = json.dumps({"run": run, "host": host}).encode() + b"\n"
    replace_file(file.parent, file, content, writer=host)
