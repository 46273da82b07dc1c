"""Compaction in a child process: it works record by record, which the event loop must not do.

The process starts with the first job and ends `IDLE_SECONDS` after the last one, so that its memory
(mostly `log.cleaner.dedupe.buffer.size`) is used only while there is work. Killing it is always
safe: it writes only `.cleaned` files, which are not read before it reports them complete.
"""

import asyncio
import contextlib
import os
import sys
from asyncio.subprocess import PIPE, Process
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.log.compaction.job import Job
    from headrace.log.compaction.worker import Told, Worker
    from headrace.ports.world import World

IDLE_SECONDS = 20.0
"""Seconds that the child process waits for another job before it is ended."""
_LINE_BYTES_MAX = 16 << 20
"""Longest line of a job or event, in bytes."""
_MODULE = "headrace.server.compaction_worker"


def compaction_worker(world: "World") -> "Worker":
    """Return the worker that compacts: a child process, or inline in a world without processes."""
    if world.has_processes:
        return ProcessWorker()
    from headrace.log.compaction.worker import InlineWorker  # imports what the process does

    return InlineWorker(world.disk)


class ProcessWorker:
    """A compaction worker in a child process. Used on the event loop.

    Implements `log.compaction.worker.Worker`.
    """

    def __init__(self, idle_seconds: float = IDLE_SECONDS) -> None:
        self._idle_seconds = idle_seconds
        self._process: Process | None = None
        self._task: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._idle: asyncio.TimerHandle | None = None
        self._stopping = False
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The child's process id, or None while no child runs."""
        return None if self._process is None else self._process.pid

    def start(self, job: "Job", told: "Told") -> None:
        """Send a job to the child, and pass each of its events to `told` (`Worker.start`)."""
        self._stopping = False
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        self._task = asyncio.get_running_loop().create_task(self._work(job, told))

    async def _work(self, job: "Job", told: "Told") -> None:
        """Run one job: send it, pass on events until its last one.

        A lost child is reported as Stopped.
        """
        from headrace.log.compaction.job import Damaged, Done, Job, Stopped, read, write

        try:
            process = await self._child()
            if process.stdin is None or process.stdout is None:
                raise OSError("the worker has no pipes")
            process.stdin.write(write(job))
            await process.stdin.drain()
            while line := await process.stdout.readline():
                event = read(line)
                if isinstance(event, Job):
                    break
                if self._closed:
                    return
                if isinstance(event, (Done, Damaged, Stopped)):
                    self._rest()
                    told(event)
                    return
                told(event)
            reason = "asked to" if self._stopping else "the worker process has ended"
        except (OSError, ValueError) as error:
            reason = f"the worker process: {error}"
        await self._reap()
        if not self._closed:
            told(Stopped(reason))

    async def _child(self) -> Process:
        """Return the child process, started if none runs.

        Killed at once if a stop was requested.
        """
        if self._process is None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", _MODULE, str(os.getpid()),
                stdin=PIPE, stdout=PIPE, limit=_LINE_BYTES_MAX,
            )  # fmt: skip
        if self._stopping or self._closed:
            self._kill()
        return self._process

    def _kill(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def _reap(self) -> None:
        """Kill the child and wait for its exit."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            if process.stdin is not None:
                process.stdin.close()
            await process.wait()

    def _rest(self) -> None:
        """Leave the idle child for the next job, and end it after `idle_seconds`."""
        loop = asyncio.get_running_loop()

        def end() -> None:
            self._idle = None
            task = loop.create_task(self._reap())
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

        self._idle = loop.call_later(self._idle_seconds, end)

    def stop(self) -> None:
        """Stop the current job (`Worker.stop`): the child is killed before this returns."""
        self._stopping = True
        self._kill()

    def close(self) -> None:
        """Stop for good (`Worker.close`): kill the child and pass on no further events."""
        self._closed = True
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        self._kill()

    async def ended(self) -> None:
        """Wait after `close` until the child has exited."""
        if self._task is not None:
            await asyncio.gather(self._task, *self._ending, return_exceptions=True)
        await self._reap()
