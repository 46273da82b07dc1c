"""Brokers that fail one after another at the worst moment: while a replica lags or joins."""

import asyncio
from collections.abc import Callable

from headrace.broker.replica.leader_term import LeaderTerm
from headrace.testing.sim.ensemble import SESSION_SECONDS
from headrace.testing.sim.faults.ground import Ground, Kinds
from headrace.testing.sim.faults.links import LinkFaults
from headrace.testing.sim.faults.machines import MachineFaults

_LOOK_SECONDS = 0.01
_PENDING_SECONDS_MAX = 8.0
"""Longest wait for a change of the ISR, in seconds."""
_CLOSE_LOOK_SECONDS = 0.001
_ASKED_SECONDS = 0.004
"""The most seconds that a leader's request takes to the controller."""
_ANSWER_TIMES_SLOW = 30.0
"""Factor on the controller's responses while a leader's followers are cut off from it."""
_ANSWER_TIMES_SLOWER = 3000.0
"""Factor on the controller's responses while a leader is to fail before it gets one."""


class Falls:
    """Faults of several machines and links in a fixed, harmful order."""

    def __init__(self, ground: Ground, machines: MachineFaults, links: LinkFaults) -> None:
        self._ground = ground
        self._machines = machines
        self._links = links

    def kinds(self) -> Kinds:
        """Return the faults that make brokers fail in sequence, by name."""
        return {
            "toppled": self._topple,
            "blackouts": self._black_out,
            "fallen before the answer": self._fall_before_the_answer,
            "fallen after a shrink": self._fall_after_a_shrink,
            "alone and out of touch": self._stand_alone,
        }

    async def _topple(self) -> None:
        """Cut the power of a leader, and soon after of its successor, while a third one lags."""
        ground, chance = self._ground, self._ground.random
        leaders = ground.leaders()
        if ground.busy or not leaders:
            return
        leader = chance.choice(leaders)
        ground.busy.add(leader)
        lagging = chance.choice([number for number in ground.brokers if number != leader])
        await self._lag(lagging)
        ground.counts["toppled"] += 1
        falling = [asyncio.create_task(self._machines.without_power(leader))]
        await asyncio.sleep(chance.uniform(0, 0.01))
        self._links.reach(lagging)
        await self._fell_next(leader, falling)

    async def _black_out(self) -> None:
        """Cut the power of all brokers but a lagging one, and of the leader soon after that.

        The first one back may lead alone and let the lagging one join.
        """
        ground, chance = self._ground, self._ground.random
        if ground.busy:
            return
        lagging = chance.choice(ground.brokers)
        others = [number for number in ground.brokers if number != lagging]
        ground.busy.update(others)
        await self._lag(lagging)
        ground.counts["blackouts"] += 1
        late = chance.choice(others) if chance.random() < 0.6 else 0
        falling = [asyncio.create_task(self._fall(number, late == number)) for number in others]
        await asyncio.sleep(SESSION_SECONDS / 2)
        self._links.reach(lagging)
        self._links.slow_to(others, lagging, chance.choice((1.0, 100.0, 400.0, 1000.0)))
        await self._fell_next(0, falling)
        self._links.slow_to(others, lagging, 1.0)

    async def _fall(self, number: int, is_late: bool) -> None:
        if is_late:
            ground = self._ground
            ground.counts["power cuts"] += 1
            await ground.cluster.cut_power(number)
            await asyncio.sleep(ground.random.uniform(1, 1.5 * SESSION_SECONDS))
            await ground.cluster.start_again(number)
            ground.give_back(number)
        else:
            await self._machines.without_power(number)

    async def _lag(self, lagging: int) -> None:
        """Cut the links from all others to a broker, until it may have left the ISR."""
        self._links.isolate(lagging)
        lag = self._ground.lag_seconds
        await asyncio.sleep(self._ground.random.uniform(lag / 2, lag * 2.5))

    async def _fell_next(self, leader: int, falling: list["asyncio.Task[None]"]) -> None:
        """Cut the power of the next leader soon after its election.

        Wait until all brokers are back.
        """
        ground, chance = self._ground, self._ground.random
        successor = await self._successor(leader)
        if successor is not None:
            ground.busy.add(successor)
            await asyncio.sleep(chance.choice((0.01, 0.1, 1)) * chance.random())
            falling.append(asyncio.create_task(self._machines.without_power(successor)))
        await asyncio.gather(*falling)

    async def _successor(self, leader: int) -> int | None:
        """Return the next leader; None if no other broker leads soon, or it is already failing."""
        for _ in range(1000):
            for number in self._ground.leaders():
                if number != leader and number not in self._ground.busy:
                    return number
            await asyncio.sleep(_LOOK_SECONDS)
        return None

    async def _fall_before_the_answer(self) -> None:
        """Fail a leader whose change of the ISR is written, before it gets the response.

        The replica that joins gets nothing more from the leader, while clients continue to write.
        """
        ground, chance = self._ground, self._ground.random
        leaders = [number for number in ground.leaders() if not ground.decides(number)]
        decider = ground.decider()
        if not leaders:  # a leader that is the controller has the response at once
            await self._move_controller()
            leaders = [number for number in ground.leaders() if not ground.decides(number)]
            decider = ground.decider()
        if ground.busy or decider is None or not leaders:
            return
        leader = chance.choice(leaders)
        ground.busy.add(leader)
        lagging = chance.choice([number for number in ground.brokers if number != leader])
        await self._lag(lagging)
        self._links.slow_to([decider], leader, _ANSWER_TIMES_SLOWER)
        self._links.reach(lagging)
        if await self._written_unheard(leader):
            ground.counts["fallen before the answer"] += 1
            if chance.random() < 0.3:
                self._links.break_links(
                    decider, leader
                )  # the response is lost; the request is repeated
                ground.give_back(leader)
            else:
                self._links.isolate(lagging)
                await asyncio.sleep(chance.uniform(0.05, 1))
                await self._machines.without_power(leader)
                self._links.reach(lagging)
        else:
            ground.give_back(leader)
        self._links.slow_to([decider], leader, 1.0)

    async def _fall_after_a_shrink(self) -> None:
        """Fail a leader after a shrink let it commit records, before its successor knows of it.

        The replica that left the ISR is back by then, with all records up to the old high
        watermark.
        """
        ground, chance = self._ground, self._ground.random
        leaders, decider = ground.leaders(), ground.decider()
        if ground.busy or not leaders:
            return
        leader = chance.choice(leaders)
        others = [number for number in ground.brokers if number != leader]
        lagging = chance.choice([number for number in others if number != decider])
        ground.busy.update(ground.brokers)
        if decider is not None:
            self._links.slow_to([decider], leader, _ANSWER_TIMES_SLOW)
        self._links.isolate(lagging)
        if await self._within(4 * ground.lag_seconds, lambda: ground.asks(leader)):
            await asyncio.sleep(_ASKED_SECONDS)
            self._links.hold(leader)  # no follower learns the new high watermark
            ground.counts["fallen after a shrink"] += await self._within(
                1, lambda: not ground.asks(leader)
            )
            await asyncio.sleep(chance.uniform(0.005, 0.05))
        ground.give_back(*others)
        falling = asyncio.create_task(self._machines.without_power(leader))
        await asyncio.sleep(_ASKED_SECONDS)
        self._links.reach(lagging)
        self._links.release(leader)
        self._links.slow_to(others, leader, 1.0)
        await falling

    async def _within(self, seconds: float, holds: Callable[[], bool]) -> bool:
        for _ in range(int(seconds / _CLOSE_LOOK_SECONDS)):
            if holds():
                return True
            await asyncio.sleep(_CLOSE_LOOK_SECONDS)
        return False

    async def _move_controller(self) -> None:
        """Make another broker the controller, by expiring the controller's session."""
        decider = self._ground.decider()
        if decider is not None and decider not in self._ground.busy:
            self._ground.cluster.worlds[decider].expire()
            await asyncio.sleep(1)

    async def _stand_alone(self) -> None:
        """Leave a leader alone in the ISR and cut it off from the store; clients still reach it."""
        ground, chance = self._ground, self._ground.random
        leaders = ground.leaders()
        if ground.busy or not leaders:
            return
        leader = chance.choice(leaders)
        ground.busy.update(ground.brokers)
        ground.counts["alone and out of touch"] += 1
        others = [number for number in ground.brokers if number != leader]
        falling = [asyncio.create_task(self._machines.without_power(number)) for number in others]
        await asyncio.sleep(SESSION_SECONDS + chance.uniform(0, 1))
        world = ground.cluster.worlds[leader]
        world.lose_touch()
        await asyncio.gather(*falling)
        await asyncio.sleep(SESSION_SECONDS * chance.uniform(0.3, 1.5))
        world.regain_touch()
        ground.give_back(leader)

    async def _written_unheard(self, leader: int) -> bool:
        """Wait until an ISR change that `leader` requested is in the store and its response is not.

        Return False if none is within `_PENDING_SECONDS_MAX`.
        """
        for _ in range(int(_PENDING_SECONDS_MAX / _LOOK_SECONDS)):
            for index, partition in self._ground.watch.partitions(leader).items():
                term = partition.role.term
                if term is not None and self._is_written(index, term):
                    return True
            await asyncio.sleep(_LOOK_SECONDS)
        return False

    def _is_written(self, index: int, term: LeaderTerm) -> bool:
        written = self._ground.watch.stored_in_sync(index)
        asked = term.pending
        return (
            asked is not None and written == {member for member, _ in asked.in_sync} > term.in_sync
        )
