"""A cluster that a client talks to without sockets: each answer is the test's to give."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headrace.client.client import Client
from headrace.client.transport.port import Address, Buffer, CannotConnect, ClientError
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.frame import RequestHeader, parse_request, response_head
from headrace.wire.kafka.hot import metadata, produce
from headrace.wire.kafka.primitives import NO_UUID
from headrace.wire.kafka.writer import writer_of

PRODUCER_ID, PRODUCER_EPOCH = 4711, 3

Answer = produce.PartitionResponse | ClientError | None
"""To a batch; `ClientError`: the whole answer does not come; None: it names no such partition."""


@dataclass(slots=True)
class Asked:
    """One Produce request as a broker got it."""

    broker: int
    version: int
    request: produce.ProduceRequest

    @property
    def batches(self) -> dict[int, bytes]:
        """By partition: what it carries."""
        return {
            data.partition: bytes(data.records or b"")
            for topic in self.request.topics
            for data in topic.partitions
        }


@dataclass(slots=True)
class HandCluster:
    """`client.transport.port.Transport`: time passes only where the client sleeps."""

    leaders: dict[str, list[int]] = field(default_factory=lambda: {"t": [0, 0, 0]})
    """The leader of each partition of each topic."""
    topic_ids: bool = True
    answers: list[Answer] = field(default_factory=list)
    """To the next batches, one each. Those after them are stored."""
    unreachable: bool = False
    comes_after: float = float("inf")
    """Until when it is unreachable."""
    versions: Mapping[int, tuple[int, int]] = field(
        default_factory=lambda: {0: (3, 13), 3: (4, 13), 22: (0, 4)}
    )
    seconds: float = 100.0
    slept: list[float] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    metadata_requests: list[metadata.MetadataRequest] = field(default_factory=list)
    ends: dict[int, int] = field(default_factory=dict)
    """The base offset of the next batch that is stored in a partition: 100 further each time."""
    waits: list[float] = field(default_factory=list)
    """How long the client was ready to wait, for each Produce."""
    unanswered: int = 0
    unanswered_most: int = 0

    def client(self, *, retry_seconds: float = 30.0, patient: bool = False) -> Client:
        """A client of this cluster."""
        return Client(
            self,
            [Address("h", 0)],
            retry_seconds=retry_seconds,
            request_timeout_seconds=7.0,
            patient=patient,
        )

    async def connect(self, address: Address, seconds: float) -> "HandLink":
        """Broker `port` is at h:port."""
        if self.unreachable and self.seconds < self.comes_after:
            raise CannotConnect(str(address))
        return HandLink(self, address)

    async def sleep(self, seconds: float) -> None:
        """Let the time pass."""
        self.slept.append(seconds)
        self.seconds += seconds

    def now(self) -> float:
        """Seconds on the cluster's clock."""
        return self.seconds

    def topic_id(self, name: str) -> bytes:
        """The id of a topic, zeros where topics have none."""
        return name.encode().ljust(16, b"-") if self.topic_ids else NO_UUID

    def body(self, header: RequestHeader, data: memoryview, asked: Asked | None) -> bytes:
        """The body of the answer to a request; ClientError instead of one."""
        version = header.version
        if header.api_key == ApiKey.API_VERSIONS:
            rows = [struct.pack(">hhh", key, *span) for key, span in self.versions.items()]
            return struct.pack(">hi", 0, len(rows)) + b"".join(rows)
        if header.api_key == ApiKey.INIT_PRODUCER_ID:
            writer = writer_of(version >= 2)()
            writer.int32(0)
            writer.int16(0)
            writer.int64(PRODUCER_ID)
            writer.int16(PRODUCER_EPOCH)
            writer.tags()
            return bytes(writer.out)
        if header.api_key == ApiKey.METADATA:
            self.metadata_requests.append(metadata.decode_request(version, data))
            return metadata.encode_response(version, self._metadata())
        if asked is None:
            raise AssertionError(f"nobody answers {header.api_key} here")
        return produce.encode_response(version, self._stored(asked))

    def _metadata(self) -> metadata.MetadataResponse:
        nodes = sorted({0, *(node for nodes in self.leaders.values() for node in nodes)})
        topics = [
            metadata.TopicResponse(0, name, self.topic_id(name), False, [
                metadata.PartitionResponse(0, number, node, 5, [node], [node], [])
                for number, node in enumerate(nodes)
            ])
            for name, nodes in self.leaders.items()
        ]  # fmt: skip
        brokers = [metadata.BrokerResponse(node, "h", node) for node in nodes]
        return metadata.MetadataResponse(brokers, "c", 0, topics)

    def _stored(self, asked: Asked) -> produce.ProduceResponse:
        topics = []
        for topic in asked.request.topics:
            answers = [
                answer
                for data in topic.partitions
                if (answer := self._answer(data.partition)) is not None
            ]
            topics.append(produce.TopicResponse(topic.name, topic.topic_id, answers))
        return produce.ProduceResponse(topics)

    def _answer(self, partition: int) -> produce.PartitionResponse | None:
        if self.answers:
            answer = self.answers.pop(0)
            if isinstance(answer, ClientError):
                raise answer
            return answer
        base = self.ends.get(partition, 0)
        self.ends[partition] = base + 100
        return produce.PartitionResponse(partition, 0, base)


class HandLink:
    """One connection to a broker of the cluster."""

    def __init__(self, cluster: HandCluster, address: Address) -> None:
        self.cluster = cluster
        self.address = address
        self.closed = False
        self.versions: dict[int, tuple[int, int]] = {}
        self._correlation_id = 0

    def next_correlation_id(self) -> int:
        """Number of the next request."""
        self._correlation_id += 1
        return self._correlation_id

    def send(self, frame: Sequence[Buffer], *, answered: bool = True) -> "HandReply":
        """Take a request; a Produce is noted."""
        data = memoryview(b"".join(frame))[4:]
        header = parse_request(data)
        asked = None
        if header.api_key == ApiKey.PRODUCE:
            request = produce.decode_request(header.version, data[header.body :])
            asked = Asked(self.address.port, header.version, request)
            self.cluster.asked.append(asked)
            self.cluster.unanswered += answered
            most = max(self.cluster.unanswered_most, self.cluster.unanswered)
            self.cluster.unanswered_most = most
        return HandReply(self.cluster, header, data[header.body :], asked)

    def close(self) -> None:
        """Note it."""
        self.closed = True

    def retire(self) -> None:
        """Note it as an end."""
        self.closed = True


class HandReply:
    """An answer, made when it is waited for."""

    def __init__(
        self, cluster: HandCluster, header: RequestHeader, data: memoryview, asked: Asked | None
    ) -> None:
        self._cluster, self._header, self._data, self._asked = cluster, header, data, asked

    async def wait(self, seconds: float) -> memoryview:
        """The response frame without its length."""
        header, cluster = self._header, self._cluster
        if self._asked is not None:
            cluster.unanswered -= 1
            cluster.waits.append(seconds)
        body = cluster.body(header, self._data, self._asked)
        head = response_head(header.api_key, header.version, header.correlation_id, len(body))
        return memoryview(head + body)[4:]
