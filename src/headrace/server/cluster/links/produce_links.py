"""`ProduceLinks`: batches of this broker's exchanges to the leaders of Kafka topics, by Produce."""

from collections.abc import Sequence

from headrace.client.calls.call import HotCall, error_code
from headrace.client.transport.peer import Peer
from headrace.client.transport.port import Address
from headrace.cluster.peers.conversation import Conversation, Limits
from headrace.cluster.peers.remote_peers import RemotePeers
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


class ProduceLinks(RemotePeers[Conversation[Produced, None]]):
    """Conversations with the leaders of topics. On the deciding thread."""

    def produce(self, leader: BrokerId, produced: Produced, done: Done[ApiError | None]) -> None:
        """Send a batch to its leader, once. Implements `remote_partitions.Produce`."""
        conversation = self._peers.to(leader)
        if conversation is None:
            self._refuse(leader, done)
        else:
            conversation.ask(produced, done)

    def _begin(self, address: Address) -> Conversation[Produced, None]:
        async def exchange(peer: Peer, questions: Sequence[Produced]) -> Sequence[ApiError | None]:
            answers = _answers(await peer.ask(_call(questions)))
            return [answers.get(each.partition, _UNANSWERED) for each in questions]

        return Conversation(
            self._peer(address, "exchanges", REQUEST_SECONDS_MAX),
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
