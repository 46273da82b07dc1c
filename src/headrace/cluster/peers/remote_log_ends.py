"""`RemoteLogEnds`: ask other leaders for the high watermarks of partitions, without a retry."""

from collections.abc import Mapping, Sequence
from functools import partial

from headrace.client.calls.call import HotCall
from headrace.client.transport.peer import Peer
from headrace.client.transport.port import Address
from headrace.cluster.peers.conversation import Conversation, Limits
from headrace.cluster.peers.remote_peers import RemotePeers
from headrace.model.errors import ApiError
from headrace.model.nouns import BrokerId, Offset, TopicPartition
from headrace.ports.callbacks import Done, gather
from headrace.shards.ask_leader import by_leader
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.hot import list_offsets

ANSWER_SECONDS_MAX = 5.0
"""Seconds after which a leader that has not answered is left out of the result."""
LIMITS = Limits(requests_max=10, questions_max=1)
_CONSUMER = -1
_COMMITTED = 0

_Ends = dict[TopicPartition, Offset]


class RemoteLogEnds(RemotePeers[Conversation[Sequence[TopicPartition], _Ends]]):
    """High watermarks from other leaders. Implements `coordination.coordinators.LogEnds`.

    Called on the deciding thread.
    """

    def ask(
        self, wanted: Sequence[TopicPartition], done: Done[Mapping[TopicPartition, Offset]]
    ) -> None:
        """Call `done` with the high watermarks of `wanted` partitions that other brokers lead.

        Partitions without a leader, or whose leader fails or does not answer in time, are left out.
        """
        asked = by_leader(self._broker.image, wanted)
        asked.pop(self._broker.broker_id, None)

        def answered(ends: Mapping[BrokerId, _Ends | ApiError]) -> None:
            told = [some for some in ends.values() if not isinstance(some, ApiError)]
            done({key: end for some in told for key, end in some.items()})

        heard = gather(len(asked), answered)
        for leader, keys in asked.items():
            conversation = self._peers.to(leader)
            if conversation is None:
                heard(leader, {})
            else:
                conversation.ask(keys, partial(heard, leader))

    def _begin(self, address: Address) -> "Conversation[Sequence[TopicPartition], _Ends]":
        peer = self._peer(address, "ends", ANSWER_SECONDS_MAX)
        return Conversation(peer, _ends_at, self._run, limits=LIMITS)


async def _ends_at(peer: Peer, asked: Sequence[Sequence[TopicPartition]]) -> Sequence[_Ends]:
    """Send ListOffsets for the latest offsets of one group of partitions; leave out failed ones."""
    topics: dict[str, list[list_offsets.PartitionRequest]] = {}
    for topic, index in asked[0]:
        latest = list_offsets.PartitionRequest(index, list_offsets.LATEST)
        topics.setdefault(topic, []).append(latest)
    request = list_offsets.ListOffsetsRequest(
        _CONSUMER,
        _COMMITTED,
        [list_offsets.TopicRequest(topic, some) for topic, some in topics.items()],
    )
    call = HotCall(
        ApiKey.LIST_OFFSETS, list_offsets.encode_request, list_offsets.decode_response, request
    )
    response = await peer.ask(call)
    return [
        {
            TopicPartition(topic.name, found.partition): Offset(found.offset)
            for topic in response.topics
            for found in topic.partitions
            if not found.error_code and found.offset >= 0
        }
    ]
