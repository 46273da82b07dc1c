"""Quotas of what is rare: changes of topics (KIP-599) and new connections (KIP-612)."""

import contextlib
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.quotas import Entity, QuotaKey, Quotas
from headrace.config.broker import load
from headrace.frontends.kafka.admin import create_partitions, create_topics, delete_topics
from headrace.frontends.kafka.admin.delete_topics import BY_ID_SINCE
from headrace.frontends.kafka.connection.api import Api
from headrace.model.errors import ApiError, ErrorCode
from headrace.security.identity import LOCAL_LISTENER
from headrace.testing import BrokerThread
from headrace.testing.clock import SimClock
from headrace.wire.kafka import kio_codec
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.frame import request_head
from tests.support import admin
from tests.support.admin import MINUTE, codes, nested, tell, versions
from tests.support.client.client import FrameClient
from tests.support.net.links import Link, ask, connect
from tests.support.net.served import served
from tests.support.processes.broker import Room

MUTATIONS, CONNECTIONS = "controller_mutation_rate", "connection_creation_rate"
HERE = "127.0.0.1"
CREATE, GROW, DELETE = served(create_topics), served(create_partitions), served(delete_topics)


# --- topics and partitions ------------------------------------------------------------------------


def test_strictly_what_exhausts_the_permits_goes_through_and_what_follows_is_refused() -> None:
    """KIP-599's own numbers: 5 a second, saved up for 100 s; 560 at once are 12 s too many."""
    clock = SimClock()
    quotas = Quotas(clock.monotonic, 11, 1, 100)
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
    clock.advance(11.875)
    with pytest.raises(ApiError):
        after.spend(1)
    clock.advance(0.125)
    quotas.mutations("u", "c", strict=True).spend(1)
    clock.advance(1_000_000)
    quotas.mutations("u", "c", strict=True).spend(501)  # no more than 500 are saved
    with pytest.raises(ApiError):
        quotas.mutations("u", "c", strict=True).spend(1)


def test_otherwise_nothing_is_refused_and_all_is_waited_for() -> None:
    clock = SimClock()
    quotas = Quotas(clock.monotonic, 11, 1, 10)
    quotas.put(Entity("u"), {MUTATIONS: 2.0})
    loose = quotas.mutations("u", "c", strict=False)
    loose.spend(20)
    assert loose.wait_seconds() == 0
    loose.spend(6)
    assert loose.wait_seconds() == pytest.approx(3.0)
    clock.advance(1)
    assert loose.wait_seconds() == pytest.approx(2.0), "less what has passed since"


def test_a_quota_of_mutations_does_not_slow_other_requests_down() -> None:
    quotas = Quotas(SimClock().monotonic, 11, 1)
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
    answer = await admin.ask(here, api, version, **fields)
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


def test_topics_made_by_asking_for_them_count_as_created(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        client = FrameClient(here)

        async def asked_for(*names: str) -> list[str]:
            key, version = ApiKey.METADATA, 9
            topics = tuple(
                client.part(key, version, "MetadataRequestTopic", name=one) for one in names
            )
            answer = await client.ask(
                key, version, topics=topics, allow_auto_topic_creation=True,
                include_cluster_authorized_operations=False,
                include_topic_authorized_operations=False,
            )  # fmt: skip
            assert answer.throttle_time == timedelta(0)
            return codes(answer.topics)

        quotas = here.broker.quotas
        quotas.put(Entity(client="test"), {MUTATIONS: 0.05})  # half a permit
        refused = "UNKNOWN_TOPIC_OR_PARTITION"
        assert await asked_for("a", "b") == ["NONE", refused]
        assert await asked_for("a", "b") == ["NONE", refused]
        assert set(here.broker.image.topics) == {"a"}
        quotas.put(Entity(client="test"), {})
        assert await asked_for("a", "b") == ["NONE", "NONE"]

    tell(tmp_path, story, controller_quota_window_num="10")


def creation(version: int, *topics: tuple[str, int]) -> bytes:
    """A CreateTopics request: names and numbers of partitions."""
    module = kio_codec.entity_module(ApiKey.CREATE_TOPICS, version).request
    wanted = tuple(
        module.CreatableTopic(
            name=name, num_partitions=count, replication_factor=1, assignments=(), configs=()
        )
        for name, count in topics
    )
    request = module.CreateTopicsRequest(topics=wanted, timeout=MINUTE, validate_only=False)
    return kio_codec.encode_body(request)


@pytest.mark.parametrize(
    ("version", "outcomes"), [(7, ["NONE", "THROTTLING_QUOTA_EXCEEDED"]), (5, ["NONE", "NONE"])]
)
def test_who_changes_too_much_is_refused_or_not_and_not_read_until_he_may_again(
    version: int, outcomes: list[str]
) -> None:
    rate, over = 10, 10  # a second's worth: a slow machine has not waited for it by the answer
    with BrokerThread({"controller.quota.window.num": "1"}, memory=True) as broker:
        limits = {MUTATIONS: float(rate)}
        broker.call(lambda server: server.broker.quotas.put(Entity(client="raw"), limits))
        link = Link(broker, "raw")
        with link.socket:
            asked = time.monotonic()
            request = creation(version, ("much", rate + over), ("more", 1))
            answer = link.ask(ApiKey.CREATE_TOPICS, version, request)
            told = kio_codec.decode_response(ApiKey.CREATE_TOPICS, version, answer)
            assert codes(told.topics) == outcomes
            assert timedelta(0) < told.throttle_time <= timedelta(seconds=(over + 1) / rate)
            assert link.ask(ApiKey.API_VERSIONS, 0, b"")
            assert time.monotonic() - asked >= told.throttle_time.total_seconds()


# --- connections ----------------------------------------------------------------------------------


def test_an_address_may_connect_so_often_and_waits_a_window_at_most() -> None:
    clock = SimClock()
    quotas = Quotas(clock.monotonic, 11, 1)
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
    clock.advance(11)
    assert quotas.connected(HERE) == 0
    quotas.put(Entity(ip=HERE), {})
    assert quotas.throttled[QuotaKey.CONNECTIONS] == 6


HELLO = request_head(ApiKey.API_VERSIONS, 0, 1, "c", 0)


def test_connections_that_come_too_fast_are_left_unread_and_closed_after_a_window() -> None:
    with BrokerThread(memory=True) as broker, contextlib.ExitStack() as stack:
        # One connection in ten seconds.
        broker.call(lambda server: server.broker.quotas.put(Entity(ip=HERE), {CONNECTIONS: 0.1}))
        welcome = stack.enter_context(connect(broker))
        assert ask(welcome, HELLO)
        began = time.monotonic()
        assert ask(stack.enter_context(connect(broker)), HELLO) is None
        assert time.monotonic() - began >= 0.9, "a reconnect at once would be too easy"
        assert ask(welcome, HELLO)
        assert broker.call(lambda server: len(server.table)) == 1
        broker.call(lambda server: server.broker.quotas.put(Entity(ip=HERE), {}))
        assert ask(stack.enter_context(connect(broker)), HELLO)


def test_those_held_off_take_nobodys_place_and_a_stop_does_not_wait_for_them() -> None:
    hour = 3600
    settings = {"quota.window.size.seconds": str(hour), "max.connections": "2"}
    once = {CONNECTIONS: 1 / (10 * hour)}
    with contextlib.ExitStack() as stack:
        with BrokerThread(settings, memory=True) as broker:
            broker.call(lambda server: server.broker.quotas.put(Entity(ip=HERE), once))
            welcome, held, late = (stack.enter_context(connect(broker)) for _ in range(3))
            assert ask(welcome, HELLO)
            assert ask(late, HELLO) is None, "where they would fill max.connections, at once"
            assert len(broker.server.table._held_off) == 1
        assert not broker.server.table._held_off
        assert ask(held, HELLO) is None


def test_all_addresses_together_may_connect_so_often() -> None:
    clock = SimClock()
    quotas = Quotas(clock.monotonic, 11, 1)
    assert quotas.connecting() == 0
    quotas.connections_rate_max = 2
    assert [quotas.connecting() for _ in range(20)] == [0.0] * 20
    assert 0 < quotas.connecting() <= 1
    assert quotas.connecting() == 1.0, "a window at most"
    clock.advance(11)
    assert quotas.connecting() == 0
    quotas.connections_rate_max = 0
    assert quotas.connecting() == 1.0
    assert quotas.throttled[QuotaKey.CONNECTIONS] == 3


def test_a_listener_may_have_a_rate_of_its_own_and_brokers_are_spared_that_of_all() -> None:
    clock = SimClock()
    quotas = Quotas(clock.monotonic, 11, 1)
    quotas.listener_rates = {"A": 1}
    assert [quotas.connecting("A") for _ in range(10)] == [0.0] * 10
    assert quotas.connecting("A") == 1.0
    assert [quotas.connecting("B") for _ in range(50)] == [0.0] * 50
    quotas.connections_rate_max, quotas.spared_listeners = 2, frozenset({"B"})
    assert [quotas.connecting("C") for _ in range(20)] == [0.0] * 20
    assert quotas.connecting("C") > 0
    assert [quotas.connecting("B") for _ in range(50)] == [0.0] * 50


def test_a_local_administrator_is_spared_the_rate_of_all() -> None:
    config, _ = load("", {}, {"max.connection.creation.rate": "1"})
    quotas = Quotas.configured(config, SimClock().monotonic)
    assert [quotas.connecting(LOCAL_LISTENER) for _ in range(50)] == [0.0] * 50
    assert max(quotas.connecting("PLAINTEXT") for _ in range(50)) > 0


def test_connections_beyond_the_brokers_rate_are_served_a_little_later() -> None:
    settings = {"max.connection.creation.rate": "1"}
    with BrokerThread(settings, memory=True) as broker, contextlib.ExitStack() as stack:
        for link in [stack.enter_context(connect(broker)) for _ in range(11)]:
            assert ask(link, HELLO)
        waited = broker.call(lambda server: server.broker.quotas.throttled[QuotaKey.CONNECTIONS])
        assert waited >= 1


def test_bounds_on_connections_that_are_altered_hold_for_those_that_come_then() -> None:
    with BrokerThread(memory=True) as broker, contextlib.ExitStack() as stack:

        def alter(**settings: str) -> None:
            wanted = {name.replace("_", "."): value for name, value in settings.items()}
            broker.run(lambda server: server.controller.settings.alter_broker("", wanted))

        first = stack.enter_context(connect(broker))
        assert ask(first, HELLO)
        alter(max_connections="1", max_connection_creation_rate="7")
        assert ask(stack.enter_context(connect(broker)), HELLO) is None
        assert ask(first, HELLO), "what is open stays open"
        assert broker.call(lambda server: server.broker.quotas.connections_rate_max) == 7
        alter()
        assert ask(stack.enter_context(connect(broker)), HELLO)
