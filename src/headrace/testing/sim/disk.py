"""A simulated disk: jobs and flushes complete after delays of the event loop."""

import random
from collections import deque
from collections.abc import Callable

from headrace.testing.disk import SimDisk
from headrace.testing.disk_file import Op
from headrace.testing.sim.history import History
from headrace.testing.sim.loop import SimLoop

FLUSH_SECONDS = (0.0002, 0.004)
JOB_SECONDS = (0.0001, 0.002)
"""Least and greatest duration of a job (`FLUSH_SECONDS`: of a flush), in seconds."""


class LoopDisk(SimDisk):
    """The disk of one machine. Flushes run one after another, other jobs concurrently."""

    def __init__(
        self, loop: SimLoop, name: str, seed: int, now_ms: Callable[[], int], history: History
    ) -> None:
        """Create an empty disk; `seed` determines the durations of flushes and jobs."""
        self._loop = loop
        self._name = name
        self._history = history
        self._random = random.Random(f"disk {name} {seed}")  # noqa: S311 - not for secrets
        self._changes = 0
        self._off = False
        self._held: list[Callable[[], None]] | None = None
        """Completions held back while the machine is paused; None while it runs."""
        self._flushes: deque[Callable[[], None]] = deque()
        self._stalled = 0.0
        super().__init__(now_ms, boot=f"boot of {name}")

    def cut_power(self) -> None:
        """Drop all disk jobs under way; none of them completes."""
        self._off = True

    def pause(self) -> None:
        """Hold back all completions until `resume`."""
        if self._held is None:
            self._held = []

    def resume(self) -> None:
        """Deliver the completions held back."""
        held, self._held = self._held, None
        for job in held or ():
            self._loop.call_soon(job)

    def stall(self, seconds: float) -> None:
        """Make the next flush take `seconds` longer."""
        self._stalled = seconds

    def go_on_from(self, former: "LoopDisk") -> None:
        """Take over the files of the process before this one, flushed or not."""
        self.nodes, self.base, self.boot = former.nodes, former.base, former.boot
        self.ops, self.unsaved = former.ops, former.unsaved
        self._changes = former._changes

    def begin_with(self, left: SimDisk, former: "LoopDisk") -> None:
        """Take over the files that a crash left of the disk before this one."""
        self.nodes, self.base = left.nodes, left.base
        self.boot = f"{former.boot}, again"
        self._changes = former._changes
        for node in self.nodes.values():
            self._changes += 1
            node.changed = self._changes

    def record(self, operation: Op) -> None:
        """Record an operation in the disk's log and in the history."""
        super().record(operation)
        if self._off:
            return
        # Counted per disk: other simulations in this process must not influence the numbers.
        self._changes += 1
        for node in (operation.node, operation.number):
            if node == operation.node or operation.kind in {"link", "rename"}:
                self.nodes[node].changed = self._changes
        self._history.add(
            "disk", self._name, operation.kind, operation.node, operation.number,
            operation.data, operation.name, operation.new_name,
        )  # fmt: skip

    def _hand_over(self, job: Callable[[], None], *, flush: bool) -> None:
        if flush:
            self._flushes.append(job)
            if len(self._flushes) == 1:
                self._flush_later()
        else:
            self._loop.call_later(self._random.uniform(*JOB_SECONDS), self._do, job)

    def _do(self, job: Callable[[], None]) -> None:
        if self._held is not None:
            self._held.append(lambda: self._do(job))
        elif not self._off:
            job()

    def _flush(self) -> None:
        if self._held is not None:
            self._held.append(self._flush)
            return
        if self._off:
            return
        job = self._flushes.popleft()
        more = bool(self._flushes)  # the job may begin another flush, which is scheduled then
        job()
        if more:
            self._flush_later()

    def _flush_later(self) -> None:
        seconds = self._random.uniform(*FLUSH_SECONDS) + self._stalled
        self._stalled = 0.0
        self._loop.call_later(seconds, self._flush)
