"""`Applier`: carries out a controller's orders (lead, follow, stop) on its broker.

All orders of a message are refused if its controller or the broker's registration has been
replaced. A single order is refused if a later leader epoch was ordered before. Log files are
created on a thread, and the event loop runs between batches, as there may be thousands.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from headrace.broker.broker import Broker
from headrace.broker.metadata_image import NO_LEADER
from headrace.broker.replica.former_terms import FormerTerms, led_before
from headrace.broker.replica.in_sync_replicas import Replicas
from headrace.broker.replica.partition_role import always
from headrace.cluster.decisions.changes import DELETED_EPOCH
from headrace.cluster.decisions.orders import Follow, Lead, Order, Orders, Replication, Stop
from headrace.cluster.membership.lease import NO_SESSION
from headrace.config.log_config import LogConfig
from headrace.log.directory.new_log import NewLog
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import LeaderEpoch, TopicPartition, counted
from headrace.posix.awaiting import called_back

if TYPE_CHECKING:
    from headrace.broker.replica.leading_rights import LeadingRights

_logger = logging.getLogger(__name__)

APPLIED_PER_TURN = 10
"""Orders carried out before other tasks of the event loop run."""
CUT_LOOK_SECONDS = 0.002
"""Seconds between two checks of whether a log's truncation has ended."""
PREPARED_AT_ONCE = 500
"""New logs whose files are created by one call on a thread."""

Failed = dict[TopicPartition, ErrorCode]
"""Error code of each partition whose order could not be carried out."""


async def _at_once(orders: Orders) -> None:
    """Return at once: the default of `Applier.before`."""


def _never(partition: TopicPartition) -> bool:
    """Return False: the default of `may_make` and `is_damaged`."""
    return False


class Applier:
    """The broker's receiver of the controller's orders.

    Implements `decisions.orders.OrderTaker`.
    """

    def __init__(
        self, broker: Broker, log_config: Callable[[str, Mapping[str, str]], LogConfig]
    ) -> None:
        """Create an applier that has received no order.

        `log_config` returns the settings of a topic's logs, from its name and its own settings.
        """
        self.controller_epoch = 0
        """Epoch of the latest controller that sent orders; 0: none yet."""
        self.broker_epoch = -1
        """Epoch of this broker's registration; -1: not registered."""
        self.knows_cluster = False
        """Whether a controller has ever sent the cluster's topics and live brokers."""
        self.session: Callable[[], int] = lambda: NO_SESSION
        """Returns the session of the store that owns the registration."""
        self._broker = broker
        self._log_config = log_config
        self._epochs: dict[TopicPartition, LeaderEpoch] = {}
        """Leader epoch of the last order for each replica."""
        self._ordered_for: dict[TopicPartition, int] = {}
        """Broker epoch of the registration for which each partition was last ordered to be led."""
        self.may_commit: Callable[[], bool] = always
        """Returns whether the lease on the session that owns the registration holds."""
        self.former_terms: FormerTerms = {}
        self.before: Callable[[Orders], Awaitable[None]] = _at_once
        """Awaited with orders before they are carried out; ApiError: they are refused."""
        self.may_make: Callable[[TopicPartition], bool] = _never
        """Returns whether a missing log was never created, although the partition is not new."""
        self.is_damaged: Callable[[TopicPartition], bool] = _never
        """Returns whether damaged batches were found in a replica's log."""
        self.rights: LeadingRights | None = None
        """The rights to be the only leader; None: no topic needs one."""
        self._turn = asyncio.Lock()

    async def take(self, orders: Orders) -> Failed:
        """Carry out orders behind all earlier ones.

        Return the partitions that failed, with error codes. When this returns, partitions that the
        broker was ordered to lead accept writes, and clients are shown `orders.delta`. ApiError
        STALE_CONTROLLER_EPOCH, STALE_BROKER_EPOCH: no order was carried out.
        """
        async with self._turn:
            self._check(orders)
            self.controller_epoch = orders.controller_epoch
            await self.before(orders)
            failed: Failed = {}
            current = [order for order in orders.orders if self._is_current(order, failed)]
            configs = self._configs(orders)
            await self._prepare(current, configs, failed)
            done = 0
            for order in current:
                if isinstance(order, Stop):
                    continue
                if isinstance(order, Lead):
                    await self._cut_over(order.replication.topic_partition)
                self._carry_out(order, orders.broker_epoch, configs, failed)
                done += 1
                if done % APPLIED_PER_TURN == 0:
                    await asyncio.sleep(0)
            self._broker.publish(orders.delta)
            self.knows_cluster |= orders.delta.brokers is not None
            await self._stop([order for order in current if isinstance(order, Stop)], failed)
            self._tell_damaged(current, failed)
            return failed

    def _tell_damaged(self, orders: Sequence[Order], failed: Failed) -> None:
        """Add CORRUPT_MESSAGE to `failed` for each replica whose log has damaged batches."""
        for order in orders:
            if not isinstance(order, Stop) and self.is_damaged(order.replication.topic_partition):
                failed.setdefault(order.replication.topic_partition, ErrorCode.CORRUPT_MESSAGE)

    def _check(self, orders: Orders) -> None:
        """Raise STALE_CONTROLLER_EPOCH or STALE_BROKER_EPOCH for orders that are superseded."""
        if orders.controller_epoch < self.controller_epoch:
            raise ApiError(
                ErrorCode.STALE_CONTROLLER_EPOCH,
                f"orders of controller epoch {orders.controller_epoch} are refused: this broker has"
                f" orders of epoch {self.controller_epoch}",
            )
        # A later broker epoch than ours is accepted: the controller read it in the store first.
        if -1 != orders.broker_epoch < self.broker_epoch:
            raise ApiError(
                ErrorCode.STALE_BROKER_EPOCH,
                f"orders for broker epoch {orders.broker_epoch} are refused: this broker has"
                f" registered again, with epoch {self.broker_epoch}",
            )

    def _is_current(self, order: Lead | Follow | Stop, failed: Failed) -> bool:
        """Return whether an order's leader epoch is not older than the last one.

        Else note the failure.
        """
        if isinstance(order, Stop):
            key, epoch = order.topic_partition, order.leader_epoch
        else:
            key, epoch = order.replication.topic_partition, order.replication.leader_epoch
        if epoch != DELETED_EPOCH and epoch < self._epochs.get(key, -1):
            failed[key] = ErrorCode.FENCED_LEADER_EPOCH
            return False
        return True

    def _configs(self, orders: Orders) -> dict[str, LogConfig]:
        """Return the log settings of each topic that is to be led or followed."""
        shown = dict(orders.configs) | {topic.name: topic.config for topic in orders.delta.topics}
        known = self._broker.image.topics
        names = {order.replication.topic_partition.topic for order in orders.orders
                 if not isinstance(order, Stop)}  # fmt: skip
        empty: Mapping[str, str] = {}
        return {
            name: self._log_config(
                name,
                shown[name] if name in shown else known[name].config if name in known else empty,
            )
            for name in names
        }

    async def _prepare(
        self, orders: Sequence[Order], configs: Mapping[str, LogConfig], failed: Failed
    ) -> None:
        """Create the files of missing logs that are to be led or followed.

        A missing log is always created for a follower. For a leader it is created only if the
        partition was never led, or the log is known never to have been created; else the order
        fails with KAFKA_STORAGE_ERROR.
        """
        broker = self._broker
        wanted = []
        for order in orders:
            if isinstance(order, Stop):
                continue
            what = order.replication
            key = what.topic_partition
            at = (key.topic, key.partition)
            if at in broker.partitions or at in broker.followed or broker.has_replica(key):
                continue
            if what.leader == NO_LEADER:
                continue  # no leader to copy from: an empty log would pass for complete
            if isinstance(order, Lead) and not (what.is_new or self._may_begin(what)):
                _logger.error(
                    "%s: this broker was elected leader, but the log is missing. Add its log"
                    " directory to log.dirs again and restart the broker, or delete the topic", key,
                )  # fmt: skip
                failed[key] = ErrorCode.KAFKA_STORAGE_ERROR
                continue
            wanted.append(NewLog(key, what.topic_id, configs[key.topic]))
        for at_once in range(0, len(wanted), PREPARED_AT_ONCE):
            some = wanted[at_once : at_once + PREPARED_AT_ONCE]
            await called_back(partial(broker.prepare_partitions, some))

    def _may_begin(self, what: Replication) -> bool:
        """Return whether a missing log may be created empty in order to lead."""
        if self.may_make(what.topic_partition):
            return True
        # An operator's unclean election of a replica without its log makes it the only ISR member.
        asked = what.recovering and what.isr == (self._broker.broker_id,)
        if asked:
            _logger.warning(
                "%s: its log is lost on all replicas; it starts with an empty log, as an unclean"
                " election was requested",
                what.topic_partition,
            )  # fmt: skip
        return asked

    def _carry_out(
        self,
        order: Lead | Follow,
        broker_epoch: int,
        configs: Mapping[str, LogConfig],
        failed: Failed,
    ) -> None:
        """Carry out one order to lead or to follow; record an error in `failed`."""
        what = order.replication
        key = what.topic_partition
        new = NewLog(key, what.topic_id, configs[key.topic])
        self._epochs[key] = what.leader_epoch
        self._broker.image.adding.pop(key, None)
        if what.adding:
            self._broker.image.adding[key] = frozenset(what.adding)
        leads = isinstance(order, Lead) and self._lead(new, what, broker_epoch, failed)
        if self.rights is not None:
            led_with = what.replicas if leads else ()
            self.rights.ordered(key, what.topic_id, what.leader_epoch, led_with)
        if isinstance(order, Follow):
            self._follow(new, what, failed)

    def _lead(self, new: NewLog, what: Replication, broker_epoch: int, failed: Failed) -> bool:
        """Lead, and return True; or record the error in `failed`."""
        broker, key = self._broker, new.topic_partition
        if led_before(self.former_terms, key, what.topic_id, what.leader_epoch):
            failed[key] = ErrorCode.NOT_LEADER_OR_FOLLOWER
            return False
        try:
            if key in failed:
                broker.refuse_partition(*key)
                return False
            replicas = Replicas(broker.broker_id, what.replicas, what.isr, what.partition_epoch)
            self._ordered_for[key] = broker_epoch
            may_commit = partial(self.holds_lease, key)
            broker.lead_partition(new, what.leader_epoch, replicas, may_commit)
        except ApiError as error:
            _logger.error(
                "%s: this broker was elected leader, but cannot serve the log: %s. Repair the log"
                " directory, then restart the broker", key, error,
            )  # fmt: skip
            failed[key] = error.code
            return False
        return True

    def holds_lease(self, key: TopicPartition) -> bool:
        """Return whether no other broker can have been elected in place of this leader.

        Its order must be for the present registration. An order for a former one may be older than
        an election after the end of that registration's session.
        """
        return self.may_commit() and self._ordered_for.get(key) == self.broker_epoch

    async def _cut_over(self, key: TopicPartition) -> None:
        """Wait until the log is truncated to the offsets that its former leader has."""
        partition = self._broker.followed.get((key.topic, key.partition))
        while partition is not None and partition.log.cutting:  # noqa: ASYNC110 - over soon
            await asyncio.sleep(CUT_LOOK_SECONDS)

    def _follow(self, new: NewLog, what: Replication, failed: Failed) -> None:
        """Follow the leader; record KAFKA_STORAGE_ERROR in `failed` for the controller."""
        if what.leader == NO_LEADER and not self._broker.has_replica(new.topic_partition):
            return
        leader, epoch = what.leader, what.leader_epoch
        try:
            self._broker.follow_partition(new, leader, epoch, unclean=what.recovering)
        except ApiError as error:
            _logger.error(
                "%s: the follower cannot open its log: %s. It fetches nothing. Repair the log"
                " directory, then restart the broker", new.topic_partition, error,
            )  # fmt: skip
            if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                failed[new.topic_partition] = error.code

    async def delete_unassigned(self, stops: Sequence[Stop]) -> None:
        """Delete the logs named by `stops`, except those that are led or followed now."""
        async with self._turn:
            broker = self._broker
            held = broker.partitions.keys() | broker.followed.keys()
            free = [stop for stop in stops if stop.topic_partition not in held]
            await self._stop(free, {})

    async def delete_topics(self, ids: Collection[bytes]) -> Failed:
        """Delete all logs of deleted topics, also those that are led or followed, by topic ids.

        Return the partitions whose logs could not be deleted.
        """
        async with self._turn:
            failed: Failed = {}
            stops = [
                Stop(log.topic_partition, log.topic_id, DELETED_EPOCH, True)
                for log in self._broker.logs()
                if log.topic_id in ids
            ]
            await self._stop(stops, failed)
            return failed

    async def _stop(self, stops: Sequence[Stop], failed: Failed) -> None:
        """Stop serving partitions; deletions are durable when this returns."""
        deleted = []
        for done, stop in enumerate(stops, 1):
            key = stop.topic_partition
            self._epochs.pop(key, None)
            self._ordered_for.pop(key, None)
            if self.rights is not None:
                self.rights.stopped(key, stop.topic_id, deleted=stop.delete)
            self._broker.image.adding.pop(key, None)
            if not self._broker.stop_partition(*key, delete=stop.delete):
                failed[key] = ErrorCode.KAFKA_STORAGE_ERROR
            if stop.delete:
                deleted.append(key)
            if done % APPLIED_PER_TURN == 0:
                await asyncio.sleep(0)
        if deleted:
            try:
                await called_back(self._broker.sync_directories)
            except OSError as error:
                _logger.error(
                    "the deletion of %s (first: %s) could not be flushed: %s. Deleted logs may"
                    " reappear after a power failure; check the disk",
                    counted(len(deleted), "log"), deleted[0], error,
                )  # fmt: skip
                failed |= dict.fromkeys(deleted, ErrorCode.KAFKA_STORAGE_ERROR)
