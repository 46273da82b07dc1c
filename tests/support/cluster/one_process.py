"""Note each process that is started, and each broker on real sockets, while a test is watched."""

import sys
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Any

import pytest

from headrace.server.assembly import Server
from headrace.server.real_world import RealWorld
from headrace.testing.broker import BrokerThread

STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"}
"""CPython's audit events of what starts a process."""
HARNESS = ("/_pytest/", "/pluggy/")


class OneProcess:
    """Processes and brokers that a watched test has started."""

    def __init__(self) -> None:
        """Listen to this process's audit events, which lasts as long as the process."""
        self._watched = False
        self._started: list[str] = []
        sys.addaudithook(self._heard)

    def begin(self, patched: pytest.MonkeyPatch) -> None:
        """Watch from now on; `patched` is undone with the watch."""
        # multiprocessing's `spawn` and threads that serve raise no audit event.
        self._note_calls(patched, BaseProcess, "a process of multiprocessing")
        self._note_calls(patched, BrokerThread, "a broker")
        self._note_calls(patched, Server, "a broker on real sockets", in_world=RealWorld)
        self._watched = True

    def end(self) -> None:
        """Watch no longer."""
        self._watched = False

    def take(self) -> list[str]:
        """Return the starts since the last call, each with the line that asked for it."""
        started, self._started = self._started, []
        return started

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._watched and event in STARTS:
            self._note(f"{event} {arguments[:2]}")

    def _note(self, started: str) -> None:
        self._started.append(f"{started}, asked for at {_asked_at(sys._getframe(2))}")

    def _note_calls(
        self,
        patched: pytest.MonkeyPatch,
        kind: type[Any],
        name: str,
        *,
        in_world: type[Any] | None = None,
    ) -> None:
        start = kind.start

        def noted(started: Any) -> Any:
            if in_world is None or isinstance(started.world, in_world):
                self._note(name)
            return start(started)

        patched.setattr(kind, "start", noted)


def _asked_at(frame: FrameType | None) -> str:
    """The innermost line of a test or a kit on the stack, or the innermost of all."""
    innermost = frame
    while frame is not None and "/tests/" not in frame.f_code.co_filename:
        if any(place in frame.f_code.co_filename for place in HARNESS):
            frame = None
            break
        frame = frame.f_back
    found = frame or innermost
    return "?" if found is None else f"{found.f_code.co_filename}:{found.f_lineno}"
