"""`RemoteTransactions`: requests to other brokers for transactions.

WriteTxnMarkers      to leaders of partitions: write the marker of a decided transaction
AddPartitionsToTxn   to transaction coordinators: add or verify partitions of a transaction
"""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from headrace.broker.broker import Broker
from headrace.client.calls.call import ColdCall, Maker, check, error_code
from headrace.client.transport.peer_clients import PeerClients
from headrace.client.transport.port import Address
from headrace.cluster.peers.conversation import Codes, Conversation, Run, one_request
from headrace.cluster.peers.pending_markers import PendingMarkers
from headrace.cluster.peers.remote_peers import RemotePeers
from headrace.coordination.transactions.all_transactions import Membership, Unwritable
from headrace.coordination.transactions.markers import Marker, MarkerWritten
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, TopicPartition, by_topic
from headrace.ports.callbacks import Done
from headrace.wire.kafka.api import ApiKey

_NO_BROKER = ApiError(ErrorCode.NETWORK_EXCEPTION, "the broker is not registered")


class Markers(NamedTuple):
    """The marker of one transaction, for some of its partitions on one broker."""

    marker: Marker
    partitions: Sequence[TopicPartition]


class _Question(NamedTuple):
    """Partitions to add to a transaction, or only to verify."""

    asked: Membership
    verify_only: bool


class _Conversations(NamedTuple):
    """The two conversations with one registration of a broker; neither waits for the other."""

    markers: Conversation[Markers, Codes]
    memberships: Conversation[_Question, Codes]

    def close(self) -> None:
        """Close both; each question without an answer ends with NETWORK_EXCEPTION."""
        self.markers.close()
        self.memberships.close()


class RemoteTransactions(RemotePeers[_Conversations]):
    """Implements `coordination.transactions.all_transactions.OtherBrokers` over the network."""

    def __init__(self, broker: Broker, listener: str, clients: PeerClients, run: Run) -> None:
        """Create without connections, as `RemotePeers`."""
        super().__init__(broker, listener, clients, run)
        self._markers = PendingMarkers(broker.image)

    def close(self) -> None:
        """Close all connections; each question without an answer ends with NETWORK_EXCEPTION."""
        super().close()
        self._markers.close()

    def write_markers(
        self,
        broker: BrokerId,
        marker: Marker,
        partitions: Sequence[TopicPartition],
        done: MarkerWritten,
    ) -> None:
        """Ask `broker` to write a marker to partitions that it leads; call `done` for each of them.

        NETWORK_EXCEPTION: no answer came, or another broker leads the partition by now.
        """
        tell = self._markers.add(broker, partitions, done)

        def answered(answer: Codes | ApiError) -> None:
            tell(_errors(partitions, answer))

        conversations = self._peers.to(broker)
        if conversations is None:
            answered(_NO_BROKER)
        else:
            conversations.markers.ask(Markers(marker, partitions), answered)

    def verify(
        self, broker: BrokerId, question: Membership, done: Done[Unwritable | ApiError]
    ) -> None:
        """Ask the coordinator `broker` which partitions the producer may not write to, and why."""

        def answered(answer: Codes | ApiError) -> None:
            if isinstance(answer, ApiError):
                done(answer)
                return
            errors = _errors(question.partitions, answer)
            done({partition: error for partition, error in errors.items() if error is not None})

        self._ask(broker, _Question(question, verify_only=True), answered)

    def add(self, broker: BrokerId, question: Membership, done: Done[ApiError | None]) -> None:
        """Ask the coordinator `broker` to add partitions to the transaction.

        CONCURRENT_TRANSACTIONS: the markers of the previous transaction are still being written.
        """

        def answered(answer: Codes | ApiError) -> None:
            errors = _errors(question.partitions, answer)
            done(next(filter(None, sorted(errors.values(), key=_not_attempted)), None))

        self._ask(broker, _Question(question, verify_only=False), answered)

    def _ask(self, broker: BrokerId, question: _Question, done: Done[Codes | ApiError]) -> None:
        conversations = self._peers.to(broker)
        if conversations is None:
            done(_NO_BROKER)
        else:
            conversations.memberships.ask(question, done)

    def _begin(self, address: Address) -> _Conversations:
        markers, memberships = (self._peer(address, "transactions") for _ in range(2))
        return _Conversations(
            Conversation(markers, one_request(_write_call), self._run, key_of=_producer_id),
            Conversation(memberships, one_request(_add_call), self._run, key_of=_transactional_id),
        )


def _producer_id(question: Markers) -> int:
    return question.marker.producer_id


def _transactional_id(question: _Question) -> str:
    return question.asked.transactional_id


def _errors(
    partitions: Collection[TopicPartition], answer: Codes | ApiError
) -> dict[TopicPartition, ApiError | None]:
    """Return the outcome of each partition; UNKNOWN_SERVER_ERROR if the answer lacks it."""
    if isinstance(answer, ApiError):
        return dict.fromkeys(partitions, answer)
    codes = {partition: answer.get(partition, ErrorCode.UNKNOWN_SERVER_ERROR)
             for partition in partitions}  # fmt: skip
    return {partition: ApiError(code) if code else None for partition, code in codes.items()}


def _not_attempted(error: ApiError | None) -> bool:
    return error is not None and error.code is ErrorCode.OPERATION_NOT_ATTEMPTED


def _write_call(asked: Sequence[Markers]) -> ColdCall[Sequence[Codes]]:
    def build(maker: Maker) -> Any:  # noqa: ANN401
        return maker.request(markers=tuple(
            maker.part(
                "WritableTxnMarker",
                producer_id=marker.producer_id,
                producer_epoch=marker.epoch,
                transaction_result=marker.commit,
                coordinator_epoch=marker.coordinator_epoch,
                topics=tuple(
                    maker.part("WritableTxnMarkerTopic", name=topic, partition_indexes=tuple(some))
                    for topic, some in by_topic(partitions).items()
                ),
            )
            for marker, partitions in asked
        ))  # fmt: skip

    def parse(response: Any) -> Sequence[Codes]:  # noqa: ANN401
        by_producer: dict[int, Codes] = {
            int(marker.producer_id): {
                TopicPartition(str(topic.name), int(partition.partition_index)): error_code(
                    partition.error_code
                )
                for topic in marker.topics
                for partition in topic.partitions
            }
            for marker in response.markers
        }
        return [by_producer.get(marker.producer_id, {}) for marker, _ in asked]

    return ColdCall(ApiKey.WRITE_TXN_MARKERS, build, parse, versions=(1, 1))


def _add_call(asked: Sequence[_Question]) -> ColdCall[Sequence[Codes]]:
    def build(maker: Maker) -> Any:  # noqa: ANN401
        return maker.request(transactions=tuple(
            maker.part(
                "AddPartitionsToTxnTransaction",
                transactional_id=question.transactional_id,
                producer_id=question.who.producer_id,
                producer_epoch=question.who.epoch,
                verify_only=verify_only,
                topics=tuple(
                    maker.part("AddPartitionsToTxnTopic", name=topic, partitions=tuple(some))
                    for topic, some in by_topic(question.partitions).items()
                ),
            )
            for question, verify_only in asked
        ))  # fmt: skip

    def parse(response: Any) -> Sequence[Codes]:  # noqa: ANN401
        check(response.error_code)
        by_id: dict[str, Codes] = {
            str(transaction.transactional_id): {
                TopicPartition(str(topic.name), int(result.partition_index)): _refused(
                    result.partition_error_code
                )
                for topic in transaction.topic_results
                for result in topic.results_by_partition
            }
            for transaction in response.results_by_transaction
        }
        return [by_id.get(question.transactional_id, {}) for question, _ in asked]

    return ColdCall(ApiKey.ADD_PARTITIONS_TO_TXN, build, parse, versions=(4, 5))


def _refused(code: int) -> ErrorCode:
    """Return the error code, TRANSACTION_ABORTABLE as INVALID_TXN_STATE.

    The caller converts it back for clients of a version that has TRANSACTION_ABORTABLE (KIP-890).
    """
    found = error_code(code)
    return ErrorCode.INVALID_TXN_STATE if found is ErrorCode.TRANSACTION_ABORTABLE else found
