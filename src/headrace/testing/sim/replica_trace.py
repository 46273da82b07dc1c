"""The steps of high watermarks and log ends, replica by replica, as a table."""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from headrace.testing.sim.cluster import SimCluster

LOOK_SECONDS = 0.0005
_DOWN = "-"


class Step(NamedTuple):
    """What each replica showed at a time, and what happened."""

    seconds: float
    shown: tuple[str, ...]
    event: str


class ReplicaTrace:
    """Looks at one partition's replicas and remembers each change."""

    def __init__(
        self, cluster: SimCluster, topic: str, names: Mapping[int, str], partition: int = 0
    ) -> None:
        """`names`: what the brokers are called in the table."""
        self.steps: list[Step] = []
        self._cluster = cluster
        self._at = (topic, partition)
        self._names = names
        self._began = cluster.loop.time()

    async def watch(self) -> None:
        """Look again and again."""
        while True:
            if not self.steps or self._shown() != self.steps[-1].shown:
                self.note("")
            await asyncio.sleep(LOOK_SECONDS)

    def note(self, event: str) -> None:
        """Remember how things are at this event."""
        seconds = self._cluster.loop.time() - self._began
        self.steps.append(Step(seconds, self._shown(), event))

    def _shown(self) -> tuple[str, ...]:
        shown: list[str] = []
        for number in self._names:
            server = self._cluster.brokers.get(number)
            if server is None:
                shown += (_DOWN, _DOWN, "")
                continue
            led = server.broker.partitions.get(self._at)
            partition = led or server.broker.followed.get(self._at)
            if partition is None:
                shown += (_DOWN, _DOWN, "")
            else:
                log, role = partition.log, "leads" if led is not None else ""
                shown += (str(log.high_watermark), str(log.end_offset), role)
        return tuple(shown)

    def table(self) -> str:
        """Return the steps, one line each."""
        heads = [f"{name} {what}" for name in self._names.values() for what in ("HW", "LEO", "")]
        rows = [("seconds", *heads, "")]
        rows += [(f"{step.seconds:.4f}", *step.shown, step.event) for step in self.steps]
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        return "\n".join(
            "  ".join(cell.rjust(width) if at < len(widths) - 1 else cell
                      for at, (cell, width) in enumerate(zip(row, widths, strict=True))).rstrip()
            for row in rows
        )  # fmt: skip
