"""`DirectoryFailures`: log directories that fail at run time, reported through the store.

The broker creates a node below `/log_dir_event_notification`, as in Kafka. The controller repeats
its orders to that broker, which answers KAFKA_STORAGE_ERROR for replicas in that directory: they
leave the ISR and others lead. For logs with damaged batches it answers CORRUPT_MESSAGE: they stay
in the ISR with all sound batches, and do not lead if a sound in-sync replica can.
"""

import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from headrace.broker.broker import Broker
from headrace.cluster.controller.term import Result
from headrace.cluster.decisions.events import DirectoriesFailed, Event
from headrace.cluster.decisions.facts import ClusterFacts
from headrace.cluster.store import znodes
from headrace.cluster.store.reaction import Reaction
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.ports.store import NoNode, Store

if TYPE_CHECKING:
    from headrace.ports.clock import Timer

DAMAGE_LOOK_SECONDS = 5.0
"""Seconds between two checks for newly found damage, which any thread may find."""
_NOTICE = f"{znodes.DIRECTORY_FAILURES}/log_dir_event_"


class DirectoryFailures:
    """Reports this broker's failures, and as the controller acts on those of all brokers."""

    def __init__(
        self,
        broker: Broker,
        store: Store,
        carry_out: Callable[[Event], Awaitable[Result]],
        facts: Callable[[], ClusterFacts],
    ) -> None:
        """Create the reporter of failed log directories.

        `facts` returns the present term's facts, or raises ApiError NOT_CONTROLLER.
        """
        self._broker = broker
        self._store = store
        self._carry_out = carry_out
        self._facts = facts
        self._untold = False
        self._telling = Reaction(
            self._tell, "a failed log directory could not be reported to the controller"
        )
        self._taking = Reaction(self._take, "reports of failed log directories are not handled yet")
        self._unwatch: list[Callable[[], None]] = []
        self._damaged: set[TopicPartition] = set()
        """Damaged logs that were reported."""
        self._damage_timer: Timer | None = None
        self.look = self._taking.ask
        """Read the reports in the store; called when this broker becomes the controller."""

    def start(self) -> None:
        """Begin to report failures, and to watch for those of other brokers."""
        for directory in self._broker.directories:
            directory.on_failure(self._failed)
        watch = self._store.watch
        self._unwatch.append(watch(znodes.DIRECTORY_FAILURES, lambda _: self.look()))
        self._look_for_damage()

    def stop(self) -> None:
        """Cancel all watches and timers."""
        for cancel in self._unwatch:
            cancel()
        if self._damage_timer is not None:
            self._damage_timer.cancel()
        self._telling.cancel()
        self._taking.cancel()

    def missed(self) -> None:
        """Report again failures that could not be while the store was unreachable."""
        if self._untold:
            self._telling.ask()

    def _failed(self, error: OSError) -> None:
        self._untold = True
        self._telling.ask()

    def _look_for_damage(self) -> None:
        broker = self._broker
        self._damage_timer = broker.clock.call_later(DAMAGE_LOOK_SECONDS, self._look_for_damage)
        if not any(directory.context.damaged for directory in broker.directories):
            return
        found = {log.topic_partition for log in broker.logs() if log.damage.met}
        if found - self._damaged:
            self._untold = True
            self._telling.ask()
        self._damaged = found

    async def _tell(self) -> None:
        value = json.dumps({"version": 1, "broker": self._broker.broker_id, "event": 1}).encode()
        await self._store.create(_NOTICE, value, sequential=True)
        self._untold = False

    async def _take(self) -> None:
        try:
            self._facts()
            names = await self._store.children(znodes.DIRECTORY_FAILURES)
            paths = [f"{znodes.DIRECTORY_FAILURES}/{name}" for name in names]
            nodes = [node for node in await self._store.get_all(paths) if node is not None]
            found = [_whose(node.value) for node in nodes]
            brokers = dict.fromkeys(broker for broker in found if broker is not None)
            if brokers:
                await self._carry_out(DirectoriesFailed(list(brokers)))
            for path in paths:
                with suppress(NoNode):
                    await self._store.delete(path)
        except ApiError as error:
            if error.code is not ErrorCode.NOT_CONTROLLER:  # the controller reads it as well
                raise


def _whose(notice: bytes) -> BrokerId | None:
    """Return the broker whose directory failed; None: the report is malformed."""
    try:
        return BrokerId(int(json.loads(notice)["broker"]))
    except znodes.NONSENSE:
        return None
