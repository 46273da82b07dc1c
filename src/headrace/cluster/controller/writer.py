"""`Writer`: decides on events and writes the decisions with the versions they are based on.

If another broker changed a node first, the node is read again and the event decided again. If the
store's answer is lost, it is unknown whether the write succeeded: the topics it touched are read
again before the next decision, and their replicas receive the store's state.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from headrace.cluster.decisions import changes
from headrace.cluster.decisions.decide import decide
from headrace.cluster.decisions.events import Event
from headrace.cluster.decisions.facts import Change, ClusterFacts
from headrace.cluster.store.catalog import OPERATIONS_PER_MULTI, Catalog
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.ports.store import BadVersion, NodeExists, NoNode, Operation, SessionLost

_logger = logging.getLogger(__name__)

ATTEMPTS_MAX = 20
"""How often an event is decided because others change the store at the same time."""


@dataclass(slots=True)
class Outcome:
    """The changes that an event led to, and the refused partitions."""

    taken: list[Change] = field(default_factory=list)
    """Changes that the store has, so that their orders may be sent."""
    refused: dict[TopicPartition, ErrorCode] = field(default_factory=dict)


class Writer:
    """Writes the controller's changes to the store. One call at a time."""

    def __init__(self, catalog: Catalog, facts: ClusterFacts) -> None:
        """Create the writer. `facts` are as `catalog` was read."""
        self._catalog = catalog
        self._facts = facts
        self._uncertain: dict[str, None] = {}
        """Topics whose nodes may have changed since the facts were read."""

    async def carry_out(self, event: Event, outcome: Outcome) -> None:
        """Decide and write until the event leads to no change.

        `outcome` is filled even on an error.

        ApiError NOT_CONTROLLER: another broker is the controller. StoreError: the store is
        unreachable.
        """
        outcome.taken += await self._read_uncertain()
        own: list[Change] = []
        for _ in range(ATTEMPTS_MAX):
            decision = decide(self._facts, event)
            done = {(change.topic, index) for change in own for index, _ in change.states}
            made = {change.topic for change in own if change.created or change.deleted}
            outcome.refused = {
                partition: code
                for partition, code in decision.refused.items()
                if tuple(partition) not in done and partition.topic not in made
            }
            before = len(own)
            try:
                if await self.write(decision.changes, own):
                    return
            finally:
                outcome.taken += own[before:]
            outcome.taken += await self._read_uncertain()
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "the metadata store keeps changing")

    async def write(self, wanted: Sequence[Change], taken: list[Change]) -> bool:
        """Write changes, several in one transaction of the store; append those written to `taken`.

        False: another broker changed a node first, and the rest is not written. Errors as
        `carry_out`.
        """
        for batch in _batches(wanted):
            operations: list[Operation] = [
                operation for change in batch for operation in change.operations
            ]
            try:
                if operations:
                    await self._catalog.multi(operations)
            except (BadVersion, NodeExists, NoNode) as error:
                self._doubt(batch)
                await self._catalog.check_controller()
                _logger.info("metadata store: changed by another: %s", error)
                return False
            except SessionLost:
                self._doubt(batch)
                raise
            for change in batch:
                self._facts.take(change)
            taken += batch
        return True

    def _doubt(self, batch: Iterable[Change]) -> None:
        self._uncertain |= dict.fromkeys(change.topic for change in batch)

    async def _read_uncertain(self) -> list[Change]:
        """Read uncertain topics again.

        Return changes that inform the replicas of changed partitions.
        """
        if not self._uncertain:
            return []
        names = list(self._uncertain)
        found = await self._catalog.topics(names, passed_over=self._facts.passed_over)
        deleting = set(await self._catalog.deletions())
        absent = [name for name in names if name not in found]
        orphans = await self._catalog.config_versions(absent) if absent else {}
        self._uncertain.clear()
        news: list[Change] = []
        for name in names:
            former, topic = self._facts.topics.get(name), found.get(name)
            if topic is None:
                self._facts.forget(name)
                self._facts.orphan_configs.pop(name, None)
                continue
            self._facts.topics[name] = topic
            if name in deleting:
                if name not in self._facts.deleting:
                    self._facts.deleting.add(name)
                    news.append(changes.deletion(topic, marked=True))
                continue
            grown = former is None or len(former.node.partitions) != len(topic.node.partitions)
            if grown:
                news.append(Change(name, created=topic))
            for index in topic.states:
                if former is None or former.versions.get(index) != topic.versions[index]:
                    is_new = topic.versions[index] == 0
                    replicas = topic.node.partitions[index]
                    news.append(changes.reminder(topic, (index,), replicas, is_new=is_new))
        self._facts.orphan_configs |= orphans
        return news


def log_unclean(taken: Iterable[Change]) -> int:
    """Log elections of leaders that may lack committed records; return their number."""
    unclean = [change for change in taken if change.unclean]
    for change in unclean:
        ((index, state),) = change.states
        _logger.warning(
            "%s-%d: unclean leader election: broker %d leads from epoch %d on and may lack"
            " committed records, as no replica known to have them could lead. The other"
            " replicas truncate to its log",
            change.topic, index, state.leader, state.leader_epoch,
        )  # fmt: skip
    return len(unclean)


def _batches(wanted: Sequence[Change]) -> Iterable[list[Change]]:
    """Yield changes in groups that fit into one transaction of the store."""
    batch: list[Change] = []
    size = 0
    for change in wanted:
        if batch and size + len(change.operations) > OPERATIONS_PER_MULTI:
            yield batch
            batch, size = [], 0
        batch.append(change)
        size += len(change.operations)
    if batch:
        yield batch
