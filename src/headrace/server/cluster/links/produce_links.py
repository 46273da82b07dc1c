"""`ProduceLinks`: batches of this broker's exchanges to the leaders of Kafka topics, by Produce."""

from collections.abc import Sequence
from functools import partial

from headrace.broker.broker import Broker
from headrace.client.calls.call import HotCall, error_code
from headrace.client.transport.peer import Peer, fixed
from headrace.client.transport.peer_clients import PeerClients
from headrace.client.transport.port import Address
from headrace.cluster.peers.conversation import Conversation, Limits, Run
from headrace.cluster.peers.registrations import RegisteredPeers
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.ports.callbacks import Done
from headrace.vhosts.remote_partition import Produced
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.hot import produce as codec
from headrace.wire.kafka.primitives import NO_UUID

REQUEST_SECONDS_MAX = 10.0
"""Seconds after which a request without an answer has failed; it is sent again."""
_TIMEOUT_MS = 5000
_VERSIONS = (3, 12)
"""Those that name topics."""
_LIMITS = Limits(requests_max=5, questions_max=20)
_ACKS_ALL = -1


class ProduceLinks:
    """Conversations with the leaders of topics. On the deciding thread."""

    def __init__(self, broker: Broker, listener: str, clients: PeerClients, run: Run) -> None:
        """Create without connections.

        `listener`: name of the inter-broker listener; `run` starts a task on the event loop.
        """
        self._broker = broker
        self._clients = clients
        self._run = run
        self._peers = RegisteredPeers(broker.image, listener, self._begin)

    def produce(self, leader: BrokerId, produced: Produced, done: Done[ApiError | None]) -> None:
        """Send a batch to its leader, once. Implements `remote_partitions.Produce`."""
        conversation = self._peers.to(leader)
        if conversation is None:
            error = ApiError(ErrorCode.NETWORK_EXCEPTION, f"broker {leader} is not registered")
            self._broker.clock.call_later(0, partial(done, error))
        else:
            conversation.ask(produced, done)

    def close(self) -> None:
        """Close all connections."""
        self._peers.close()

    def _begin(self, address: Address) -> Conversation[Produced, None]:
        client = self._clients.make(
            f"broker-{self._broker.broker_id}-exchanges",
            request_timeout_seconds=REQUEST_SECONDS_MAX,
        )

        async def exchange(peer: Peer, questions: Sequence[Produced]) -> Sequence[ApiError | None]:
            answers = _answers(await peer.ask(_call(questions)))
            return [answers.get(each.partition, _UNANSWERED) for each in questions]

        return Conversation(
            Peer(client, fixed(address)),
            exchange,
            self._run,
            key_of=lambda produced: produced.partition,
            limits=_LIMITS,
        )


_UNANSWERED = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "no answer")


def _call(
    questions: Sequence[Produced],
) -> HotCall[codec.ProduceRequest, codec.ProduceResponse]:
    topics: dict[str, list[codec.PartitionData]] = {}
    for (topic, index), batch in questions:
        topics.setdefault(topic, []).append(codec.PartitionData(index, batch))
    data = [codec.TopicData(topic, NO_UUID, parts) for topic, parts in topics.items()]
    request = codec.ProduceRequest(None, _ACKS_ALL, _TIMEOUT_MS, data)
    return HotCall(
        ApiKey.PRODUCE,
        codec.encode_request,
        codec.decode_response,
        request,
        versions=_VERSIONS,
    )


def _answers(response: codec.ProduceResponse) -> dict[TopicPartition, ApiError | None]:
    """Return the error of each partition; None: its batch is committed."""
    found: dict[TopicPartition, ApiError | None] = {}
    for topic in response.topics:
        for part in topic.partitions:
            code = error_code(part.error_code)
            stored = code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
            error = None if stored else ApiError(code, part.error_message)
            found[TopicPartition(topic.name, part.partition)] = error
    return found
