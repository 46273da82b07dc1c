"""Transactions of a whole cluster: markers to the leaders of partitions, questions to coordinators.

Coordinators are asked by `AskLeader`. A marker goes to the broker that leads its partition in the
metadata image at that moment; `Markers` writes it again where that fails.
"""

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, Protocol

from headrace.broker.metadata_image import NO_LEADER, MetadataImage
from headrace.coordination.runtime.ask_leader import AskLeader, Retry, by_leader
from headrace.coordination.transactions.limits import TransactionLimits
from headrace.coordination.transactions.markers import Marker, MarkerWritten, Participants
from headrace.coordination.transactions.producers import TV2, ProducerEpoch
from headrace.coordination.transactions.transaction_coordinators import TransactionCoordinators
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.ports.callbacks import Done
from headrace.ports.clock import Clock

ADD_RETRY = Retry(
    frozenset({ErrorCode.CONCURRENT_TRANSACTIONS}), TransactionLimits.wait_ms / 1000, 0.02, 0.02
)
"""A coordinator that still writes the markers of the transaction before does not wait for them, so
that other questions need not wait for its answer: it is asked again."""
_CLOSED = ApiError(ErrorCode.NOT_COORDINATOR, "this broker stops")

Unwritable = dict[TopicPartition, ApiError]
"""Partitions that a producer may not write to in its open transaction, and why."""


class Membership(NamedTuple):
    """A question about partitions of one transaction, to its coordinator."""

    transactional_id: str
    who: ProducerEpoch
    partitions: Collection[TopicPartition]
    version: int = TV2
    """The client's transaction version; other brokers ask for 2 only."""


class OtherBrokers(Protocol):
    """Other brokers, asked once. Answers may be late, and repeated questions do no harm.

    ApiError NETWORK_EXCEPTION: it may be done, or not.
    """

    def write_markers(
        self,
        broker: BrokerId,
        marker: Marker,
        partitions: Sequence[TopicPartition],
        done: MarkerWritten,
    ) -> None:
        """Have `broker` write a marker to partitions that it leads (WriteTxnMarkers)."""

    def verify(
        self, broker: BrokerId, question: Membership, done: Done[Unwritable | ApiError]
    ) -> None:
        """Ask `broker` as `TransactionCoordinators.verify` (AddPartitionsToTxn)."""

    def add(self, broker: BrokerId, question: Membership, done: Done[ApiError | None]) -> None:
        """Ask `broker` as `TransactionCoordinators.add`, for transaction version 2.

        It does not wait for the markers of the transaction before: CONCURRENT_TRANSACTIONS.
        """


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
        for leader, led in by_leader(self._image(), partitions).items():
            if leader == self._own:
                self._local.write(marker, led, done)
            elif leader != NO_LEADER:
                self._others().write_markers(leader, marker, led, done)
            else:
                for partition in led:
                    done(partition, ApiError(ErrorCode.LEADER_NOT_AVAILABLE))


class AllTransactions:
    """Questions of partitions' leaders to the coordinator of a transaction, on any broker."""

    def __init__(
        self,
        local: TransactionCoordinators,
        own: BrokerId,
        others: Callable[[], OtherBrokers],
        verifies: Callable[[], bool],
        clock: Clock,
    ) -> None:
        """`local` are those of broker `own`. `verifies`: whether the coordinator is asked at all
        about batches of clients that have told it of their partitions themselves."""
        self._verifies = verifies
        led = local.led

        def leader_of(question: Membership) -> BrokerId:
            return led.leader_of(led.partition_for(question.transactional_id), own)

        def verified_here(question: Membership, done: Done[Unwritable | ApiError]) -> None:
            local.verify(*question[:3], done)

        def added_here(question: Membership, done: Done[ApiError | None]) -> None:
            local.add(*question, done)

        self._verify: AskLeader[Membership, Unwritable] = AskLeader(
            own, leader_of, verified_here, lambda *asked: others().verify(*asked), clock
        )
        self._add: AskLeader[Membership, None] = AskLeader(
            own, leader_of, added_here, lambda *asked: others().add(*asked), clock, ADD_RETRY
        )

    def verify(
        self,
        transactional_id: str,
        who: ProducerEpoch,
        partitions: Collection[TopicPartition],
        done: Done[Unwritable],
    ) -> None:
        """Tell which partitions the producer may not write to in its open transaction, and why."""
        if not self._verifies():
            done({})
            return

        def verified(answer: Unwritable | ApiError) -> None:
            if isinstance(answer, ApiError):
                answer = dict.fromkeys(partitions, answer)
            done(answer)

        self._verify.ask(Membership(transactional_id, who, partitions), verified)

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
        self._add.ask(Membership(transactional_id, who, partitions, version), done)

    def close(self) -> None:
        """Ask nothing again; each asker without an answer is told to look for the coordinator."""
        for asking in (self._verify, self._add):
            asking.close(_CLOSED)
