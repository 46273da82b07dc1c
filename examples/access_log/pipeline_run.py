"""`headrace pipeline run` in a process of its own, and the events that it prints."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.pipeline.run.run_status import RunState

if TYPE_CHECKING:
    from collections.abc import Iterator

STOP_SECONDS_MAX = 90.0


class RunFailed(Exception):
    """The run ended by itself."""


class PipelineRun:
    """A run, as far as its events tell; `look` reads those that have arrived. One thread's."""

    def __init__(self, process: subprocess.Popen[str], errors: Path) -> None:
        self._process = process
        self._errors = errors
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.state = RunState("access-log", None)
        self.rows: dict[str, int] = {}
        """Number of rows that each flow's checks have seen."""

    def look(self) -> RunState:
        """Return the state of the run; raises RunFailed if it has ended."""
        ended = self._process.poll() is not None
        if ended:
            self._reader.join()
        while not self._lines.empty():
            event = json.loads(self._lines.get())
            self.state.take(event)
            if event["event"] == "batch" and "checks" in event:
                rows = self.rows.get(event["flow"], 0) + event["checks"]["rows"]
                self.rows[event["flow"]] = rows
        if ended:
            raise RunFailed(self.state.text or self._errors.read_text(errors="replace").strip())
        return self.state

    def started(self, flows: int) -> bool:
        """Return whether so many queries have started."""
        return len(self.look().flows) == flows

    def records_read(self) -> int:
        """Return the number of records that every flow has read, those that it refused included."""
        flows = self.look().flows.values()
        return min((flow.records + flow.refused for flow in flows), default=0)

    def watermark_passed(self, flow: str, time: str) -> bool:
        """Return whether a flow's finished batches had a watermark at or behind a time in ISO."""
        return (self.look().flows[flow].watermark or "") >= time

    def _read(self) -> None:
        for line in self._process.stdout or ():
            self._lines.put(line)


@contextmanager
def running(project: Path, bootstrap: str, errors: Path) -> Iterator[PipelineRun]:
    """Run the pipeline of `project` until the end of this context, as Ctrl-C would stop it.

    What it writes to standard error goes to the file `errors`.
    """
    headrace = Path(sys.executable).with_name("headrace")
    command = [str(headrace), "pipeline", "run", str(project), "--json", "-b", bootstrap]
    with errors.open("wb") as file:
        # A session of its own: Ctrl-C in the terminal is for the demo, which then stops the run.
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
    try:
        yield PipelineRun(process, errors)
    finally:
        process.terminate()  # it stops after the batches that run
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
