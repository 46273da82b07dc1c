"""A simulated disk whose threads are the loop's own delays."""

import random
from collections import deque
from collections.abc import Callable

from headrace.testing.disk import SimDisk
from headrace.testing.disk_file import Op
from headrace.testing.sim.history import History
from headrace.testing.sim.loop import SimLoop

FLUSH_SECONDS = (0.0002, 0.004)
JOB_SECONDS = (0.0001, 0.002)
"""The least and the most that a flush, and any other job, takes."""


class LoopDisk(SimDisk):
    """One machine's disk. Flushes are done one after the other, other jobs side by side."""

    def __init__(
        self, loop: SimLoop, name: str, seed: int, now_ms: Callable[[], int], history: History
    ) -> None:
        """`seed` decides how long things take."""
        self._loop = loop
        self._name = name
        self._history = history
        self._random = random.Random(f"disk {name} {seed}")  # noqa: S311 - not for secrets
        self._changes = 0
        self._off = False
        self._held: list[Callable[[], None]] | None = None
        """What is to be told when the machine goes on; None while it runs."""
        self._flushes: deque[Callable[[], None]] = deque()
        self._stalled = 0.0
        super().__init__(now_ms, boot=f"boot of {name}")

    def cut_power(self) -> None:
        """Do nothing more of what is under way, and tell nothing of it."""
        self._off = True

    def pause(self) -> None:
        """Tell of nothing that is done, until `resume`."""
        if self._held is None:
            self._held = []

    def resume(self) -> None:
        """Tell what was held back."""
        held, self._held = self._held, None
        for job in held or ():
            self._loop.call_soon(job)

    def stall(self, seconds: float) -> None:
        """Have the next flush take so much longer."""
        self._stalled = seconds

    def go_on_from(self, former: "LoopDisk") -> None:
        """Hold what the process before this one had written, flushed or not."""
        self.nodes, self.base, self.boot = former.nodes, former.base, former.boot
        self.ops, self.unsaved = former.ops, former.unsaved
        self._changes = former._changes

    def begin_with(self, left: SimDisk, former: "LoopDisk") -> None:
        """Hold what is left of the disk that was here before."""
        self.nodes, self.base = left.nodes, left.base
        self.boot = f"{former.boot}, again"
        self._changes = former._changes
        for node in self.nodes.values():
            self._changes += 1
            node.changed = self._changes

    def record(self, operation: Op) -> None:
        """Remember and tell an operation."""
        super().record(operation)
        if self._off:
            return
        # Counted anew for each disk: another simulation in this process shall not be seen here.
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
        self._flushes.popleft()()
        if self._flushes:
            self._flush_later()

    def _flush_later(self) -> None:
        seconds = self._random.uniform(*FLUSH_SECONDS) + self._stalled
        self._stalled = 0.0
        self._loop.call_later(seconds, self._flush)
