"""Transactions of the whole cluster: markers to partition leaders, requests to coordinators.

`AskLeader` sends requests to coordinators and retries them. A marker is sent to the leader of its
partition in the metadata image; `Markers` retries failed ones.
"""

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, Protocol

from headrace.broker.metadata_image import NO_LEADER, MetadataImage
from headrace.coordination.transactions.limits import TransactionLimits
from headrace.coordination.transactions.markers import Marker, MarkerWritten, Participants
from headrace.coordination.transactions.producers import TV2, ProducerEpoch
from headrace.coordination.transactions.transaction_coordinators import TransactionCoordinators
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.ports.callbacks import Done
from headrace.ports.clock import Clock
from headrace.shards.ask_leader import AskLeader, Retry, by_leader

ADD_RETRY = Retry(
    frozenset({ErrorCode.CONCURRENT_TRANSACTIONS}), TransactionLimits.wait_ms / 1000, 0.02, 0.02
)
"""Retries of adding partitions while the previous transaction's markers are being written. The
other coordinator answers at once instead of waiting, so that it does not delay other requests."""
_CLOSED = ApiError(ErrorCode.NOT_COORDINATOR, "this broker stops")

Unwritable = dict[TopicPartition, ApiError]
"""Partitions that a producer may not write to in its open transaction, with the error of each."""


class Membership(NamedTuple):
    """A request to a transaction's coordinator: partitions to add or to verify."""

    transactional_id: str
    who: ProducerEpoch
    partitions: Collection[TopicPartition]
    version: int = TV2
    """The client's transaction version; requests from other brokers always have 2."""


class OtherBrokers(Protocol):
    """Requests to other brokers, each sent once. They are idempotent; `done` may be called late.

    ApiError NETWORK_EXCEPTION: the request may or may not have been carried out.
    """

    def write_markers(
        self,
        broker: BrokerId,
        marker: Marker,
        partitions: Sequence[TopicPartition],
        done: MarkerWritten,
    ) -> None:
        """Ask `broker` to write a marker to partitions that it leads (WriteTxnMarkers)."""

    def verify(
        self, broker: BrokerId, question: Membership, done: Done[Unwritable | ApiError]
    ) -> None:
        """Call `TransactionCoordinators.verify` on `broker` (AddPartitionsToTxn, VerifyOnly)."""

    def add(self, broker: BrokerId, question: Membership, done: Done[ApiError | None]) -> None:
        """Call `TransactionCoordinators.add` on `broker`, for transaction version 2.

        CONCURRENT_TRANSACTIONS while it writes the markers of the previous transaction.
        """


class AllParticipants:
    """The partitions of all brokers, for writing markers. Implements `markers.Participants`."""

    def __init__(
        self,
        local: Participants,
        image: Callable[[], MetadataImage],
        own: BrokerId,
        others: Callable[[], OtherBrokers],
    ) -> None:
        """Create the access; `local`: partitions that broker `own` leads; `others`: called late."""
        self._local = local
        self._image = image
        self._own = own
        self._others = others

    def exists(self, partition: TopicPartition) -> bool:
        """Return whether the partition exists, on this or another broker."""
        return self._local.exists(partition)

    def write(
        self, marker: Marker, partitions: Sequence[TopicPartition], done: MarkerWritten
    ) -> None:
        """Write the marker through each partition's leader; LEADER_NOT_AVAILABLE: it has none."""
        for leader, led in by_leader(self._image(), partitions).items():
            if leader == self._own:
                self._local.write(marker, led, done)
            elif leader != NO_LEADER:
                self._others().write_markers(leader, marker, led, done)
            else:
                for partition in led:
                    done(partition, ApiError(ErrorCode.LEADER_NOT_AVAILABLE))


class AllTransactions:
    """Requests of partition leaders to transaction coordinators on this and other brokers."""

    def __init__(
        self,
        local: TransactionCoordinators,
        own: BrokerId,
        others: Callable[[], OtherBrokers],
        verifies: Callable[[], bool],
        clock: Clock,
    ) -> None:
        """Create the access to all transaction coordinators.

        `local`: the coordinators of broker `own`. `verifies`: whether `verify` asks the coordinator
        (transaction.partition.verification.enable).
        """
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
        """Call `done` with partitions that the producer may not write to, and their errors."""
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
        """Add partitions to the producer's transaction; the first ones begin it.

        `version`: the client's transaction version; only those of version 2 add partitions this
        way.
        """
        self._add.ask(Membership(transactional_id, who, partitions, version), done)

    def close(self) -> None:
        """Cancel all retries; each request without an answer ends with NOT_COORDINATOR."""
        for asking in (self._verify, self._add):
            asking.close(_CLOSED)
