"""Quotas of what is rare: changes of topics (KIP-599) and new connections (KIP-612)."""

import contextlib
import socket
import struct
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.quotas import Entity, QuotaKey, Quotas
from headrace.frontends.kafka import create_partitions, create_topics, delete_topics
from headrace.frontends.kafka.delete_topics import BY_ID_SINCE
from headrace.frontends.kafka.handler import Api
from headrace.model.errors import ApiError, ErrorCode
from headrace.testing import BrokerThread
from headrace.wire.kafka import cold
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.frame import request_head
from tests.support.admin import MINUTE, ask, codes, nested, tell, versions
from tests.support.broker import Room
from tests.support.served import served

MUTATIONS, CONNECTIONS = "controller_mutation_rate", "connection_creation_rate"
HERE = "127.0.0.1"
CREATE, GROW, DELETE = served(create_topics), served(create_partitions), served(delete_topics)


class Hand:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


# --- topics and partitions ------------------------------------------------------------------------


def test_strictly_what_exhausts_the_permits_goes_through_and_what_follows_is_refused() -> None:
    """KIP-599's own numbers: 5 a second, saved up for 100 s; 560 at once are 12 s too many."""
    clock = Hand()
    quotas = Quotas(clock, 11, 1, 100)
    quotas.put(Entity(client="c"), {MUTATIONS: 5.0})
    burst = quotas.mutations("u", "c", strict=True)
    burst.spend(560)
    assert burst.wait_seconds() == 0
    after = quotas.mutations("u", "c", strict=True)
    with pytest.raises(ApiError) as refused:
        after.spend(1)
    assert refused.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert after.wait_seconds() == pytest.approx(12.0)
    quotas.mutations("u", "other", strict=True).spend(10_000)
    clock.seconds += 11.9
    with pytest.raises(ApiError):
        after.spend(1)
    clock.seconds += 0.1
    quotas.mutations("u", "c", strict=True).spend(1)
    clock.seconds += 1_000_000
    quotas.mutations("u", "c", strict=True).spend(501)  # no more than 500 are saved
    with pytest.raises(ApiError):
        quotas.mutations("u", "c", strict=True).spend(1)


def test_otherwise_nothing_is_refused_and_all_is_waited_for() -> None:
    clock = Hand()
    quotas = Quotas(clock, 11, 1, 10)
    quotas.put(Entity("u"), {MUTATIONS: 2.0})
    loose = quotas.mutations("u", "c", strict=False)
    loose.spend(20)
    assert loose.wait_seconds() == 0
    loose.spend(6)
    assert loose.wait_seconds() == pytest.approx(3.0)
    clock.seconds += 1
    assert loose.wait_seconds() == pytest.approx(2.0), "less what has passed since"


def test_a_quota_of_mutations_does_not_slow_other_requests_down() -> None:
    quotas = Quotas(Hand(), 11, 1)
    quotas.put(Entity("u"), {MUTATIONS: 2.0})
    quotas.put(Entity(ip=HERE), {CONNECTIONS: 2.0})
    assert not quotas.active


async def change(here: Room, api: Api, version: int, number: int) -> tuple[str, timedelta]:
    """Create, delete or grow a topic, three partitions in all; outcome and throttle time."""
    name = f"t{number}"
    fields: dict[str, Any] = {"timeout": MINUTE}
    if api is CREATE:
        topic = nested(api, version, "CreatableTopic", name=name, num_partitions=3,
                       replication_factor=1, assignments=(), configs=())  # fmt: skip
        fields |= {"topics": (topic,), "validate_only": False}
    elif api is GROW:
        topic = nested(api, version, "CreatePartitionsTopic", name=name, count=4, assignments=None)
        fields |= {"topics": (topic,), "validate_only": False}
    elif version >= BY_ID_SINCE:
        topic = nested(api, version, "DeleteTopicState", name=name, topic_id=None)
        fields |= {"topics": (topic,)}
    else:
        fields |= {"topic_names": (name,)}
    answer = await ask(here, api, version, **fields)
    outcome = getattr(answer, {ApiKey.CREATE_TOPICS: "topics", ApiKey.CREATE_PARTITIONS: "results"}
                      .get(api.key, "responses"))  # fmt: skip
    return codes(outcome)[0], answer.throttle_time


@pytest.mark.parametrize(
    ("api", "version", "strict_since"),
    [
        (api, version, since)
        for api, since in (
            (CREATE, 6),
            (GROW, 3),
            (DELETE, 5),
        )
        for version in versions(api)
    ],
)
def test_versions_that_can_tell_refuse_and_older_ones_have_the_client_wait(
    tmp_path: Path, api: Api, version: int, strict_since: int
) -> None:
    async def story(here: Room) -> None:
        if api is not CREATE:
            for number in range(3):
                assert (await change(here, CREATE, 7, number))[0] == "NONE"
        quotas = here.broker.quotas
        quotas.put(Entity(client="test"), {MUTATIONS: 0.05})  # half a permit
        assert (await change(here, api, version, 0))[0] == "NONE"
        outcome, wait = await change(here, api, version, 1)
        assert wait > timedelta(0)
        topics = here.broker.image.topics
        if version >= strict_since:
            assert outcome == "THROTTLING_QUOTA_EXCEEDED"
            assert ("t1" in topics) is (api is not CREATE)
        else:
            assert outcome == "NONE"
        assert quotas.throttled[QuotaKey.MUTATION] > 0
        quotas.put(Entity(client="test"), {})
        assert await change(here, api, version, 2) == ("NONE", timedelta(0))

    settings = {"controller_quota_window_num": "10"}
    tell(tmp_path, story, **settings)


def receive(link: socket.socket, size: int) -> bytes:
    got = b""
    while len(got) < size and (more := link.recv(size - len(got))):
        got += more
    return got


def answer_to(link: socket.socket, frame: bytes) -> bytes:
    """Empty where the connection ends instead."""
    with contextlib.suppress(ConnectionError):
        link.sendall(frame)
        head = receive(link, 4)
        if head:
            return receive(link, struct.unpack(">i", head)[0])
    return b""


def creation(version: int, correlation_id: int, *topics: tuple[str, int]) -> bytes:
    """A CreateTopics request: names and numbers of partitions."""
    module = cold.entity_module(ApiKey.CREATE_TOPICS, version).request
    wanted = tuple(
        module.CreatableTopic(
            name=name, num_partitions=count, replication_factor=1, assignments=(), configs=()
        )
        for name, count in topics
    )
    request = module.CreateTopicsRequest(topics=wanted, timeout=MINUTE, validate_only=False)
    return cold.encode_request(request, correlation_id, "raw")


def created(version: int, answer: bytes) -> Any:
    return cold.decode_response(ApiKey.CREATE_TOPICS, version, memoryview(answer)[5:])


def test_who_changes_too_much_is_refused_and_not_read_until_he_may_again() -> None:
    settings = {"controller.quota.window.num": "1"}
    with BrokerThread(settings, memory=True) as broker:
        limits = {MUTATIONS: 10.0}
        broker.call(lambda server: server.broker.quotas.put(Entity(client="raw"), limits))
        with socket.create_connection((HERE, broker.port), timeout=20) as link:
            for version, outcomes in (
                (7, ["NONE", "THROTTLING_QUOTA_EXCEEDED"]),
                (5, ["NONE", "NONE"]),
            ):
                request = creation(version, 1, (f"much-{version}", 13), (f"more-{version}", 1))
                answer = created(version, answer_to(link, request))
                told = time.monotonic()
                assert codes(answer.topics) == outcomes
                assert timedelta(milliseconds=100) < answer.throttle_time < timedelta(seconds=1.5)
                assert answer_to(link, request_head(ApiKey.API_VERSIONS, 0, 2, "raw", 0))
                assert time.monotonic() - told >= answer.throttle_time.total_seconds() * 0.9


# --- connections ----------------------------------------------------------------------------------


def test_an_address_may_connect_so_often_and_waits_a_window_at_most() -> None:
    clock = Hand()
    quotas = Quotas(clock, 11, 1)
    assert quotas.connected(HERE) == 0
    quotas.put(Entity(ip=HERE), {CONNECTIONS: 1.0})
    quotas.put(Entity(ip="::0001"), {CONNECTIONS: 1.0})
    for address in (HERE, "::1"):
        assert [quotas.connected(address) for _ in range(10)] == [0.0] * 10
        assert quotas.connected(address) == 1.0
        assert quotas.connected(address) == 1.0, "what is turned away does not count"
    assert [quotas.connected("10.0.0.1") for _ in range(50)] == [0.0] * 50
    quotas.put(Entity(ip=""), {CONNECTIONS: 2.0})
    assert [quotas.connected("10.0.0.1") > 0 for _ in range(21)] == [False] * 20 + [True]
    assert quotas.connected("10.0.0.2") == 0, "each has its own"
    assert quotas.connected(HERE) == 1.0, "the address's own quota goes before the default"
    clock.seconds += 11
    assert quotas.connected(HERE) == 0
    quotas.put(Entity(ip=HERE), {})
    assert quotas.throttled[QuotaKey.CONNECTIONS] == 6


def test_connections_that_come_too_fast_are_left_unread_and_closed() -> None:
    hello = request_head(ApiKey.API_VERSIONS, 0, 1, "c", 0)
    with (
        BrokerThread({"max.connections": "11"}, memory=True) as broker,
        contextlib.ExitStack() as stack,
    ):

        def connect() -> socket.socket:
            return stack.enter_context(socket.create_connection((HERE, broker.port), timeout=20))

        broker.call(lambda server: server.broker.quotas.put(Entity(ip=HERE), {CONNECTIONS: 1.0}))
        welcome = [connect() for _ in range(10)]
        for link in welcome:
            assert answer_to(link, hello)
        began = time.monotonic()
        held, late = connect(), connect()
        assert answer_to(late, hello) == b"", "where they would fill max.connections, at once"
        assert answer_to(held, hello) == b""
        assert time.monotonic() - began >= 0.9, "a reconnect at once would be too easy"
        for link in welcome:
            assert answer_to(link, hello)
        assert broker.call(lambda server: len(server.table)) == 10
        broker.call(lambda server: server.broker.quotas.put(Entity(ip=HERE), {}))
        assert answer_to(connect(), hello)


def test_a_stop_does_not_wait_for_those_held_off() -> None:
    with BrokerThread(memory=True) as broker, contextlib.ExitStack() as stack:
        broker.call(lambda server: server.broker.quotas.put(Entity(ip=HERE), {CONNECTIONS: 0.1}))
        links = [
            stack.enter_context(socket.create_connection((HERE, broker.port), timeout=20))
            for _ in range(3)
        ]
        assert answer_to(links[0], request_head(ApiKey.API_VERSIONS, 0, 1, "c", 0))
    # `stop` has returned without an error
