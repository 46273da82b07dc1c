"""`Coordinators`: the coordinators of one broker, each created and imported on first use.

That is its first request, or the first partition of its internal topic that the broker leads.
"""

from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from headrace.model.invariant import InvariantError
from headrace.model.nouns import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from headrace.security.handle_owners import HandleOwners

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.broker.broker import Broker
    from headrace.broker.metadata_image import ImageDelta
    from headrace.broker.partition import Partition
    from headrace.coordination.groups.group_coordinators import GroupCoordinators
    from headrace.coordination.groups.share.admin_offsets import LogEnds
    from headrace.coordination.share.all_share_states import OtherStates
    from headrace.coordination.share.share_service import ShareService
    from headrace.coordination.transactions.all_transactions import (
        AllParticipants,
        AllTransactions,
        OtherBrokers,
    )
    from headrace.coordination.transactions.participants import LocalParticipants
    from headrace.coordination.transactions.transaction_coordinators import TransactionCoordinators
    from headrace.model.errors import ApiError
    from headrace.ports.callbacks import Done
    from headrace.shards.led_shards import LedShards
    from headrace.shards.shard import World


class Others(Protocol):
    """Requests to other brokers, by purpose; each kind is created on first use."""

    @property
    def transactions(self) -> "OtherBrokers": ...

    @property
    def share_states(self) -> "OtherStates": ...

    @property
    def log_ends(self) -> "LogEnds": ...


class Coordinators:
    """The coordinators of groups, share groups and transactions, for the lifetime of the broker."""

    def __init__(
        self,
        broker: "Broker",
        new_producer_id: "Callable[[Done[int | ApiError]], None]",
        others: "Others | None",
    ) -> None:
        """Observe which partitions `broker` leads. `new_producer_id` calls back with an id never
        given before, or an error. `others`: requests to other brokers; None: a broker alone."""
        self._broker = broker
        self._others = others
        self._new_producer_id = new_producer_id
        self.member_owners = HandleOwners()
        """The authenticated owner of each group member."""
        self._begun = False
        self._led: dict[str, Callable[[], LedShards[Any]]] = {
            OFFSETS_TOPIC: lambda: self.groups.led,
            TRANSACTIONS_TOPIC: lambda: self.transactions.led,
            SHARE_STATE_TOPIC: lambda: self.share.states.led,
        }
        broker.opened.append(self._opened)
        broker.closed.append(self._closed)
        broker.image.observers.append(self._picture_changed)

    @cached_property
    def _world(self) -> "World":
        """The clock, random source, disk and replay turns that all shards share."""
        from headrace.shards.shard import World

        return World(self._broker.clock, self._broker.random, self._broker.disk)

    @cached_property
    def groups(self) -> "GroupCoordinators":
        """The coordinators of consumer groups of both protocols, and of share groups' members."""
        from headrace.coordination.groups.group_coordinators import GroupCoordinators

        return GroupCoordinators.of(self._broker, self._world)

    def groups_if_any(self) -> "GroupCoordinators | None":
        """Return the group coordinators, or None if nothing has needed them yet."""
        return self.groups if "groups" in self.__dict__ else None

    @cached_property
    def transactions(self) -> "TransactionCoordinators":
        """The transaction coordinators of this broker."""
        from headrace.coordination.transactions.transaction_coordinators import (
            TransactionCoordinators,
        )

        broker = self._broker
        made = TransactionCoordinators(
            world=self._world,
            config=lambda: broker.config,
            image=lambda: broker.image,
            participants=self._all_participants(),
            new_producer_id=self._new_producer_id,
        )
        if self._begun:
            made.begin()
        return made

    @cached_property
    def participants(self) -> "LocalParticipants":
        """The partitions led by this broker, for writing transaction markers."""
        from headrace.coordination.transactions.participants import LocalParticipants

        return LocalParticipants(self._broker, lambda: self.groups)

    @cached_property
    def all_transactions(self) -> "AllTransactions":
        """The transaction coordinators of all brokers."""
        from headrace.coordination.transactions.all_transactions import AllTransactions

        broker = self._broker
        return AllTransactions(
            self.transactions,
            broker.broker_id,
            self._other_transactions,
            lambda: broker.config.transaction_partition_verification_enable,
            broker.clock,
        )

    def _all_participants(self) -> "AllParticipants":
        """Return the partitions of all brokers, for the markers of transactions decided here."""
        from headrace.coordination.transactions.all_transactions import AllParticipants

        broker = self._broker
        return AllParticipants(
            self.participants, lambda: broker.image, broker.broker_id, self._other_transactions
        )

    def _other_transactions(self) -> "OtherBrokers":
        if self._others is None:
            raise InvariantError("a broker with a store of its own asks no others")
        return self._others.transactions

    @cached_property
    def share(self) -> "ShareService":
        """The share-group service: share partitions led here, and persisted share-group state."""
        from headrace.coordination.share.share_service import ShareService

        others = self._others
        return ShareService(
            self._broker,
            self._world,
            lambda: self.groups,
            None if others is None else lambda: others.share_states,
            None if others is None else lambda: others.log_ends,
        )

    def _made(self, name: str) -> bool:
        """Return whether the coordinator in attribute `name` was created."""
        return name in vars(self)

    def begin(self) -> None:
        """Begin to serve transactions: the broker has joined the cluster and knows its topics."""
        self._begun = True
        if self._made("transactions"):
            self.transactions.begin()

    def close(self) -> None:
        """Close what was created; pending requests end with errors that clients retry elsewhere."""
        if self._made("all_transactions"):
            self.all_transactions.close()
        if self._made("transactions"):
            self.transactions.close()
        if self._made("share"):
            self.share.close()
        if self._made("groups"):
            self.groups.close()

    def _opened(self, partition: "Partition") -> None:
        topic, index = partition.topic_partition
        led = self._led.get(topic)
        if led is not None:
            led().lead(index, partition, partition.leader_epoch)

    def _closed(self, partition: "Partition") -> None:
        topic, index = partition.topic_partition
        led = self._led.get(topic)
        if led is not None:
            led().resign(index)
        if self._made("share"):
            self.share.partition_closed(partition)

    def _picture_changed(self, delta: "ImageDelta", structural: bool) -> None:
        if delta.removed and self._made("groups"):
            for topic in delta.removed:
                self.groups.topic_deleted(topic)
