"""Every API in every version that is advertised, against hostile requests.

Taken from the registry and from what the broker itself advertises, so an API added there is fuzzed
here. Whatever is sent is answered by a response of the API or by a closed connection: never by a
bug's traceback, never with memory that was only announced, and nobody else notices.
"""

import contextlib
import logging
import os
import select
import socket
import struct
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest
from random import Random
from typing import NamedTuple
from uuid import UUID

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka.protocol.admin.transactions import DescribeTransactionsResponse

from headrace.broker.quotas import Entity
from headrace.frontends.kafka.connection.api import Api
from headrace.frontends.kafka.connection.registry import APIS
from headrace.model.errors import Malformed
from headrace.testing import BrokerThread
from headrace.wire.kafka import kio_codec
from headrace.wire.kafka.api import ApiKey, is_served
from headrace.wire.kafka.frame import parse_response, request_head
from headrace.wire.kafka.hot import api_versions
from tests.support.net.links import SECONDS_MAX, allocates_at_most, ask, connect, receive
from tests.support.wire import random as wire_random

ROUNDS = 40 if os.environ.get("HEADRACE_LONG") else 4
"""Sound requests of each version, with all that is made of each."""
SEED = int(os.environ.get("HEADRACE_SEED", "0"))
QUIET_SECONDS = 0.02
"""No answer for so long: those still missing wait for something, as a Fetch may."""
ALLOCATED_BYTES_MAX = 32 << 20
"""What the requests of one version may cost: the codecs met for the first time are in it."""
CORRELATION_ID = 7_000_001
SAFE = "safe"
"""A topic no request names."""
SETTINGS = {
    "auto.create.topics.enable": "false",
    "partitions.max": "60",
    "num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "socket.request.max.bytes": str(1 << 20),
    "group.consumer.assignment.interval.ms": "0",
}


LIMITS = {"producer_byte_rate": 1e15, "consumer_byte_rate": 1e15, "request_percentage": 1e-9}
"""Of a client that has to wait after each request."""


class Outcome(NamedTuple):
    """What became of one request."""

    answers: bytes
    closed: bool


class Bugs(logging.Handler):
    """Keeps what is logged as an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self.seen.append(logging.Formatter().format(record))
        except Exception as error:  # noqa: BLE001 - a line that cannot be written is a bug as well
            self.seen.append(f"{record.msg!r} with {record.args!r}: {error!r}")


@pytest.fixture(scope="module")
def tally() -> Iterator[Counter[str]]:
    """Counts over all APIs, told at the end."""
    counts: Counter[str] = Counter()
    yield counts
    print(f"\nhostile requests: {dict(sorted(counts.items()))}")


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with BrokerThread(SETTINGS, memory=True) as one:
        one.create_topics("t", "u", SAFE)
        topics = one.call(lambda server: server.broker.image.topics)
        known = [UUID(bytes=topics[name].topic_id) for name in ("t", "u")]
        wire_random.IDS.extend(known)
        yield one
        del wire_random.IDS[-len(known) :]


@pytest.fixture
def bystander(broker: BrokerThread) -> Iterator[socket.socket]:
    """A connection that was there before, and is answered after."""
    with connect(broker) as link:
        assert advertised(link)
        yield link
        assert advertised(link)


@pytest.fixture
def bugs() -> Iterator[Bugs]:
    handler = Bugs()
    logging.getLogger().addHandler(handler)
    yield handler
    logging.getLogger().removeHandler(handler)


def advertised(link: socket.socket) -> dict[int, range]:
    """The versions the broker says it has, by API key."""
    key, version = ApiKey.API_VERSIONS, 3
    body = api_versions.encode_request(version, api_versions.ApiVersionsRequest("fuzz", "1"))
    answer = ask(link, request_head(key, version, 1, None, len(body)) + body)
    assert answer is not None
    frame = memoryview(answer)
    found = api_versions.decode_response(version, frame[parse_response(frame, key, version)[1] :])
    return {one.api_key: range(one.min_version, one.max_version + 1) for one in found.api_keys}


def is_whole(answer: bytes) -> bool:
    """Whether nothing of it is still to come, as far as can be seen."""
    return not answer or len(answer) == 4 + int.from_bytes(answer[:4], "big")


def send_all(broker: BrokerThread, bystander: socket.socket, frames: list[bytes]) -> list[Outcome]:
    """Each on a connection of its own, all at once; what came back of each."""
    with contextlib.ExitStack() as stack:
        links = [stack.enter_context(connect(broker)) for _ in frames]
        for link, frame in zip(links, frames, strict=True):
            with contextlib.suppress(ConnectionError):
                link.sendall(frame)
        assert advertised(bystander)
        got = dict.fromkeys(links, b"")
        closed: set[socket.socket] = set()
        for link in links:
            link.setblocking(False)
        deadline = time.monotonic() + SECONDS_MAX
        while open_ones := [link for link in links if link not in closed]:
            assert time.monotonic() < deadline, "an answer breaks off"
            started = any(got.values()) or closed
            ready, _, _ = select.select(open_ones, [], [], QUIET_SECONDS if started else 5)
            if not ready and all(is_whole(got[link]) for link in open_ones):
                break
            for link in ready:
                try:
                    more = link.recv(1 << 16)
                except ConnectionError:
                    more = b""
                got[link] += more
                if not more:
                    closed.add(link)
        assert advertised(bystander)
        return [Outcome(got[link], link in closed) for link in links]


def check_answer(key: int, version: int, answer: bytes) -> None:
    """It is one whole response to the request, as a client decodes it, and nothing besides."""
    (size,) = struct.unpack_from(">i", answer)
    assert len(answer) == 4 + size
    frame = memoryview(answer)[4:]
    correlation_id, at = parse_response(frame, key, version)
    assert correlation_id == CORRELATION_ID
    if key == ApiKey.DESCRIBE_TRANSACTIONS:
        # An id without a transaction has begun none at -1, in Kafka too: a time that kio refuses.
        states = DescribeTransactionsResponse.decode(answer[4 + at :], version)
        states.with_header(correlation_id)
        assert states.encode_header(flexible=True) + states.encode() == answer[4:]
        return
    response = kio_codec.decode_response(key, version, frame[at:])
    assert len(kio_codec.encode_body(response)) == len(frame) - at


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.key.name)
def test_hostile_requests_of_every_version_are_answered_or_end_their_connection(
    api: Api,
    broker: BrokerThread,
    bystander: socket.socket,
    bugs: Bugs,
    tally: Counter[str],
) -> None:
    chance = Random(zlib.crc32(api.key.name.encode()) + SEED)
    versions = advertised(bystander).get(api.key, range(api.min_version, api.max_version + 1))
    for version in versions:
        served = is_served(api.key, version)
        assert served or api.key == ApiKey.PRODUCE, "only Produce is advertised beyond what is"
        bodies = (
            list(wire_random.hostile(api.key, version, chance, ROUNDS))
            if served
            else [("noise", chance.randbytes(size)) for size in range(20)]
        )
        frames = [
            request_head(api.key, version, CORRELATION_ID, "fuzz", len(body)) + body
            for _, body in bodies
        ]
        # Every second one comes while its client has quotas: answers are then told to wait.
        with allocates_at_most(ALLOCATED_BYTES_MAX):
            half = send_all(broker, bystander, frames[::2])
            broker.call(lambda server: server.broker.quotas.put(Entity(client="fuzz"), LIMITS))
            other = send_all(broker, bystander, frames[1::2])
            broker.call(lambda server: server.broker.quotas.put(Entity(client="fuzz"), {}))
        outcomes = [one for pair in zip_longest(half, other) for one in pair if one is not None]
        for (kind, body), outcome in zip(bodies, outcomes, strict=True):
            assert not bugs.seen, f"v{version} among {len(bodies)}: {bugs.seen[0]}"
            if outcome.answers:
                try:
                    check_answer(api.key, version, outcome.answers)
                except Malformed as problem:
                    pytest.fail(f"v{version} {kind} {body.hex()}: {problem}")
            tally["answered" if outcome.answers else "closed" if outcome.closed else "waiting"] += 1
            tally["requests"] += 1
        if served:
            assert any(one.answers or one.closed for one in outcomes), "it only waits"
        else:
            assert any(one.closed for one in outcomes)
            assert not any(one.answers for one in outcomes)
        tally["API versions"] += 1


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.key.name)
def test_a_request_that_breaks_off_leaves_nothing_behind(
    api: Api, broker: BrokerThread, bystander: socket.socket, bugs: Bugs
) -> None:
    """Its length says more than ever comes; its client has gone."""
    chance = Random(zlib.crc32(api.key.name.encode()) + SEED)
    for version in range(api.min_version, api.max_version + 1):
        body = wire_random.request(api.key, version, chance)
        frame = request_head(api.key, version, CORRELATION_ID, "fuzz", len(body)) + body
        with connect(broker) as link:
            link.sendall(frame[: chance.randrange(len(frame))])
        with connect(broker) as link:
            link.sendall(struct.pack(">i", len(frame) + 9) + frame[4:])
            link.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionError):
                assert receive(link, 1) == b""
    assert advertised(bystander)
    assert not bugs.seen


def test_after_all_that_a_stock_client_writes_and_reads(
    broker: BrokerThread, bystander: socket.socket, bugs: Bugs
) -> None:
    for api in APIS:  # in whatever order the tests are run, something hostile went before
        chance = Random(zlib.crc32(api.key.name.encode()) + SEED + 1)
        for _, body in wire_random.hostile(api.key, api.max_version, chance, 1):
            with connect(broker) as link, contextlib.suppress(ConnectionError):
                link.sendall(request_head(api.key, api.max_version, 1, "fuzz", len(body)) + body)
    settings = {"bootstrap.servers": broker.bootstrap, "log_level": 0}
    producer = Producer(settings | {"acks": "all"})
    producer.produce(SAFE, b"still here", partition=0)
    assert producer.flush(20) == 0
    consumer = Consumer(settings | {"group.id": "after"})
    try:
        consumer.assign([TopicPartition(SAFE, 0, 0)])
        message = consumer.poll(20)
        assert message is not None
        assert message.value() == b"still here"
    finally:
        consumer.close()
    assert not bugs.seen
