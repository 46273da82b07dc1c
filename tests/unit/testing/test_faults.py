"""Faults of the simulator that seeds seldom draw, and how long they last, by themselves."""

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.testing.sim.branches import _waits_for_leaver
from headrace.testing.sim.cluster import SimCluster
from headrace.testing.sim.faults.ground import Ground
from headrace.testing.sim.faults.machines import MachineFaults
from headrace.testing.sim.faults.swarm import ELECTIONS_MIN, Faults, Mix
from headrace.testing.sim.loop import SimLoop

BROKERS = (1, 2, 3)


def test_things_go_wrong_for_as_long_as_is_asked() -> None:
    watch: Any = SimpleNamespace(elections=ELECTIONS_MIN)
    loop = SimLoop(1)
    ground = Ground(SimCluster(loop, 1), (), (), watch, 1.0)
    mix = Mix(kinds=("clock jumps",), pauses_seconds_max=(0.1,))

    async def story() -> float:
        began = loop.time()
        await Faults(ground, mix=mix).happen(60.0)
        return loop.time() - began

    assert 60.0 <= loop.play(story()) < 60.2


class _Machines:
    """Brokers of which nothing but what a fault does to them is there."""

    def __init__(self, *, spares: bool) -> None:
        self.done: list[str] = []
        cluster: Any = SimpleNamespace(
            seed=1, brokers={}, kill=self._tell("kill"), start_again=self._start_again,
            replace_disk=self._tell("replace disk"),
        )  # fmt: skip
        watch: Any = SimpleNamespace(
            topic="t", disk_goes=self._tell("disk goes"), spares=lambda *_: spares
        )
        links: Any = SimpleNamespace(hold=self._tell("hold"), release=self._tell("release"))
        self.ground = Ground(cluster, BROKERS, (), watch, 1.0)
        self.faults = MachineFaults(self.ground, links)

    def _tell(self, what: str) -> Any:
        return lambda number: self.done.append(f"{what} {number}")

    async def _start_again(self, number: int) -> None:
        self.done.append(f"start {number}, busy {len(self.ground.busy)}")

    def happen(self, kind: str) -> list[str]:
        """What is done to whom when the fault happens once; afterwards nobody is busy."""
        self.done.clear()

        async def once() -> None:
            await self.faults.kinds()[kind]()

        SimLoop(1).play(once())
        assert self.ground.busy == set()
        return [line.replace(str(self._hit()), "N", 1) for line in self.done]

    def _hit(self) -> str:
        return self.done[0].split()[-1]


KILLED = ["hold N", "kill N", "start N, busy 1", "release N"]
EMPTY = ["hold N", "disk goes N", "replace disk N", "start N, busy 2", "release N"]


def test_a_broker_whose_requests_are_held_comes_back_with_its_disk_or_with_an_empty_one() -> None:
    machines = _Machines(spares=True)
    told = [machines.happen("requests held over a kill") for _ in range(20)]
    assert KILLED in told
    assert EMPTY in told
    assert all(lines in (KILLED, EMPTY) for lines in told)
    counts = machines.ground.counts
    assert counts["requests held over a kill"] == 20
    assert counts["disks replaced by empty ones"] == told.count(EMPTY)


def test_no_disk_goes_while_no_other_broker_has_all_that_is_on_it() -> None:
    machines = _Machines(spares=False)
    assert [machines.happen("requests held over a kill") for _ in range(20)] == [KILLED] * 20


@pytest.mark.parametrize(("behind", "waits"), [("A", False), ("B", False), ("C", True)])
def test_an_end_waits_for_a_leaver_where_only_that_one_is_behind(behind: str, waits: bool) -> None:
    ends = {who: SimpleNamespace(flushed_end=4 if who == behind else 5) for who in ("A", "B", "C")}
    pending = SimpleNamespace(in_sync=(("A", 1), ("B", 1)))
    isr = SimpleNamespace(pending=pending, in_sync=frozenset("ABC"), _progress=ends)
    term: Any = SimpleNamespace(_isr=isr)
    assert _waits_for_leaver(term) is waits
    isr.pending = None
    assert not _waits_for_leaver(term)
