"""Transactions across brokers: who is asked about a partition, and about a transactional id.

What this broker leads is asked directly. All else is asked of the broker that leads it by the
metadata image, as it is at that moment: whoever is refused asks again, perhaps somebody else.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from headrace.broker.metadata_image import NO_LEADER, MetadataImage
from headrace.coordination.transactions.markers import Marker, MarkerWritten, Participants
from headrace.coordination.transactions.producers import ProducerEpoch
from headrace.coordination.transactions.transaction_coordinators import TransactionCoordinators
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TRANSACTIONS_TOPIC, BrokerId, TopicPartition
from headrace.ports.callbacks import Done


class OtherBrokers(Protocol):
    """What is asked of other brokers. Answers may be late, and repeated questions do no harm."""

    def write_markers(
        self,
        broker: BrokerId,
        marker: Marker,
        partitions: Sequence[TopicPartition],
        done: MarkerWritten,
    ) -> None:
        """Have `broker` write a marker to partitions that it leads (WriteTxnMarkers)."""

    def verify(
        self,
        broker: BrokerId,
        transactional_id: str,
        who: ProducerEpoch,
        partitions: Collection[TopicPartition],
        done: Done[dict[TopicPartition, ApiError]],
    ) -> None:
        """Ask `broker` as `TransactionCoordinators.verify` (AddPartitionsToTxn)."""

    def add(
        self,
        broker: BrokerId,
        transactional_id: str,
        who: ProducerEpoch,
        partitions: Collection[TopicPartition],
        done: Done[ApiError | None],
    ) -> None:
        """Ask `broker` as `TransactionCoordinators.add`, for transaction version 2."""


class AllParticipants:
    """`markers.Participants`: the partitions of this broker and of all others."""

    def __init__(
        self,
        local: Participants,
        image: Callable[[], MetadataImage],
        own: BrokerId,
        others: Callable[[], OtherBrokers],
    ) -> None:
        """`local` are those that broker `own` leads. `others` is called when first needed."""
        self._local = local
        self._image = image
        self._own = own
        self._others = others

    def exists(self, partition: TopicPartition) -> bool:
        """Tell whether the partition is there, led by whomever."""
        return self._local.exists(partition)

    def write(
        self, marker: Marker, partitions: Sequence[TopicPartition], done: MarkerWritten
    ) -> None:
        """Write the marker to all of them, each by who leads it now."""
        image = self._image()
        by_leader: dict[BrokerId, list[TopicPartition]] = {}
        for partition in partitions:
            by_leader.setdefault(image.leader_of(partition), []).append(partition)
        for leader, led in by_leader.items():
            if leader == self._own:
                self._local.write(marker, led, done)
            elif leader != NO_LEADER:
                self._others().write_markers(leader, marker, led, done)
            else:
                for partition in led:
                    done(partition, ApiError(ErrorCode.LEADER_NOT_AVAILABLE))


class AllTransactions:
    """What partitions' leaders ask of the coordinator of a transaction, wherever it is."""

    def __init__(
        self,
        local: TransactionCoordinators,
        image: Callable[[], MetadataImage],
        own: BrokerId,
        others: Callable[[], OtherBrokers],
        verifies: Callable[[], bool],
    ) -> None:
        """`local` are those of broker `own`. `verifies`: whether the coordinator is asked at all
        about batches of clients that have told it of their partitions themselves."""
        self._local = local
        self._image = image
        self._own = own
        self._others = others
        self._verifies = verifies

    def verify(
        self,
        transactional_id: str,
        who: ProducerEpoch,
        partitions: Collection[TopicPartition],
        done: Done[dict[TopicPartition, ApiError]],
    ) -> None:
        """Tell which partitions the producer may not write to in its open transaction, and why."""
        if not self._verifies():
            done({})
            return
        broker = self._coordinator(transactional_id)
        if broker == self._own:
            self._local.verify(transactional_id, who, partitions, done)
        elif broker != NO_LEADER:
            self._others().verify(broker, transactional_id, who, partitions, done)
        else:
            done(dict.fromkeys(partitions, ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)))

    def add(
        self,
        transactional_id: str,
        who: ProducerEpoch,
        partitions: Collection[TopicPartition],
        version: int,
        done: Done[ApiError | None],
    ) -> None:
        """Take partitions into the transaction, which begins with the first ones.

        `version`: the client's transaction version; only clients of the newest ask in this way.
        """
        broker = self._coordinator(transactional_id)
        if broker == self._own:
            self._local.add(transactional_id, who, partitions, version, done)
        elif broker != NO_LEADER:
            self._others().add(broker, transactional_id, who, partitions, done)
        else:
            done(ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE))

    def _coordinator(self, transactional_id: str) -> BrokerId:
        index = self._local.led.partition_for(transactional_id)
        if self._local.led.at(index) is not None:
            return self._own
        return self._image().leader_of(TopicPartition(TRANSACTIONS_TOPIC, index))
