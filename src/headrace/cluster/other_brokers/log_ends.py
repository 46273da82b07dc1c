"""How far partitions are committed that other brokers lead: asked of their leaders, once."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.broker.broker import Broker
from headrace.client.calls.call import HotCall
from headrace.client.transport.peer_clients import PeerClients
from headrace.client.transport.port import Address, ClientError
from headrace.cluster.other_brokers.gathered_questions import Run
from headrace.model.errors import ApiError, Malformed
from headrace.model.nouns import BrokerId, Offset, TopicPartition
from headrace.ports.callbacks import Done, Once
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.hot import list_offsets

if TYPE_CHECKING:
    from headrace.replication.fetch_dependencies import Running

ANSWER_SECONDS_MAX = 5.0
"""After that a leader's partitions are left out."""
_CONSUMER = -1
_COMMITTED = 0


class RemoteLogEnds:
    """`coordination.coordinators.LogEnds` over the network. On the deciding thread."""

    def __init__(self, broker: Broker, listener: str, clients: PeerClients, run: Run) -> None:
        """`listener`: by which brokers reach each other. `run` runs a conversation."""
        self._broker = broker
        self._listener = listener
        self._clients = clients
        self._run = run
        self._asking: dict[Running, Once[Mapping[TopicPartition, Offset]]] = {}

    def ask(
        self, wanted: Sequence[TopicPartition], done: Done[Mapping[TopicPartition, Offset]]
    ) -> None:
        """Tell the high watermarks of partitions that others lead; unknown ones are left out."""
        answer: Once[Mapping[TopicPartition, Offset]] = Once(done)

        async def converse() -> None:
            try:
                answer(await self._ends(wanted))
            finally:
                self._asking.pop(running, None)

        running = self._run(converse())
        self._asking[running] = answer

    def close(self) -> None:
        """Ask nothing more; who waits is told that nothing is known."""
        asking, self._asking = self._asking, {}
        for running, answer in asking.items():
            running.cancel()
            answer({})

    async def _ends(self, wanted: Sequence[TopicPartition]) -> dict[TopicPartition, Offset]:
        found: dict[TopicPartition, Offset] = {}
        by_leader: dict[BrokerId, list[TopicPartition]] = {}
        for key in wanted:
            by_leader.setdefault(self._broker.image.leader_of(key), []).append(key)
        for leader, keys in by_leader.items():
            info = self._broker.image.brokers.get(leader)
            endpoint = None if info is None else info.endpoint(self._listener)
            if endpoint is not None and leader != self._broker.broker_id:
                address = Address(endpoint.host, endpoint.port)
                found |= await self._ends_at(address, keys)
        return found

    async def _ends_at(
        self, address: Address, keys: Sequence[TopicPartition]
    ) -> dict[TopicPartition, Offset]:
        topics: dict[str, list[list_offsets.PartitionRequest]] = {}
        for topic, index in keys:
            asked = list_offsets.PartitionRequest(index, list_offsets.LATEST)
            topics.setdefault(topic, []).append(asked)
        request = list_offsets.ListOffsetsRequest(
            _CONSUMER,
            _COMMITTED,
            [list_offsets.TopicRequest(topic, asked) for topic, asked in topics.items()],
        )
        call = HotCall(
            ApiKey.LIST_OFFSETS, list_offsets.encode_request, list_offsets.decode_response, request
        )
        client = self._clients.make(
            f"broker-{self._broker.broker_id}-ends", request_timeout_seconds=ANSWER_SECONDS_MAX
        )
        try:
            response = await client.ask(await client.link_to(address), call)
        except (ClientError, ApiError, Malformed):
            return {}
        finally:
            client.close()
        return {
            TopicPartition(topic.name, found.partition): Offset(found.offset)
            for topic in response.topics
            for found in topic.partitions
            if not found.error_code and found.offset >= 0
        }
