"""Client quotas: who waits how long, what is kept of them, and that waits are told and kept to."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.quotas import Entity, Quotas
from headrace.broker.rates import Rate
from headrace.frontends.kafka.admin import alter_client_quotas, describe_client_quotas
from headrace.record import batch
from headrace.record.record import new_record
from headrace.testing import BrokerThread
from headrace.testing.clock import SimClock
from headrace.testing.disk import SimDisk
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.hot import fetch, heartbeat, metadata, produce
from tests.support.admin import ask, codes, nested, tell, versions
from tests.support.net.links import Link
from tests.support.net.served import served
from tests.support.processes.broker import Room, play, room

PRODUCE, FETCH, REQUEST = "producer_byte_rate", "consumer_byte_rate", "request_percentage"


# --- rates and waits ----------------------------------------------------------------------------


def test_a_rate_is_over_the_whole_span_from_the_start() -> None:
    rate = Rate(11, 1000)
    rate.add(20_000, 0)
    assert rate.measure(0) == (2000, 10_000)
    rate.add(0, 1500)
    assert rate.measure(1500) == (20_000 * 1000 / 10_500, 10_500)
    assert rate.measure(10_999)[0] == pytest.approx(20_000 / 10.999)
    assert rate.measure(11_000)[0] == 0


def test_who_is_over_his_quota_waits_until_his_rate_is_back_at_it() -> None:
    clock = SimClock()
    quotas = Quotas(clock.monotonic, 11, 1)
    quotas.put(Entity(client="c"), {PRODUCE: 1000.0})
    quota = quotas.of("u", "c")
    assert quota.produced(10_000) == 0
    assert quota.produced(10_000) == pytest.approx(10.0)
    clock.advance(11)
    assert quota.produced(10_000) == 0
    assert quota.fetched(1 << 30) == 0
    assert quotas.of("u", "other").produced(1 << 30) == 0
    quotas.put(Entity(client="c"), {})
    assert not quotas.active


def test_what_is_not_sent_is_not_counted() -> None:
    quotas = Quotas(SimClock().monotonic, 11, 1)
    quotas.put(Entity(client="c"), {FETCH: 1000.0})
    quota = quotas.of("u", "c")
    assert quota.fetched(1000) == 0
    assert quota.fetched(14_000) == pytest.approx(5.0)
    assert quota.fetched(9000) == 0
    assert quota.fetch_bytes_max(1 << 20) == 10_000


def test_a_wait_for_requests_is_a_window_at_most() -> None:
    quotas = Quotas(SimClock().monotonic, 11, 1)
    quotas.put(Entity(client="c"), {REQUEST: 1.0})
    quota = quotas.of("u", "c")
    assert quota.handled(0.1) == 0
    assert quota.handled(0.01) == pytest.approx(1.0)
    assert quota.handled(60) == 1.0


@pytest.mark.parametrize(
    ("limits", "bound", "shared"),
    [
        ({Entity(client=""): 9}, 9, "other user"),
        ({Entity(client=""): 9, Entity(client="c"): 8}, 8, "other user"),
        ({Entity(client="c"): 8, Entity(""): 7}, 7, "other client"),
        ({Entity(""): 7, Entity("", ""): 6}, 6, None),
        ({Entity("", ""): 6, Entity("", "c"): 5}, 5, None),
        ({Entity("", "c"): 5, Entity("u"): 4}, 4, "other client"),
        ({Entity("u"): 4, Entity("u", ""): 3}, 3, None),
        ({Entity("u", ""): 3, Entity("u", "c"): 2}, 2, None),
    ],
)
def test_the_most_special_quota_decides_and_says_who_shares_it(
    limits: dict[Entity, float], bound: float, shared: str | None
) -> None:
    quotas = Quotas(SimClock().monotonic, 11, 1)
    for entity, limit in limits.items():
        quotas.put(entity, {PRODUCE: limit})
    bucket = quotas.of("u", "c").produce
    assert bucket is not None
    assert bucket.bound == bound
    assert quotas.of("u", "c").produce is bucket
    assert (quotas.of("v", "c").produce is bucket) is (shared == "other user")
    assert (quotas.of("u", "d").produce is bucket) is (shared == "other client")


# --- the store and the requests ------------------------------------------------------------------


async def alter(
    here: Room, version: int, entity: dict[str, str | None], **quotas: float | None
) -> tuple[str, str | None]:
    api = served(alter_client_quotas)
    ops = tuple(
        nested(api, version, "OpData", key=key, value=value or 0.0, remove=value is None)
        for key, value in quotas.items()
    )
    named = tuple(
        nested(api, version, "EntityData", entity_type=kind, entity_name=name)
        for kind, name in entity.items()
    )
    entry = nested(api, version, "EntryData", entity=named, ops=ops)
    answer = await ask(here, api, version, entries=(entry,), validate_only=False)
    assert [(one.entity_type, one.entity_name) for one in answer.entries[0].entity] == list(
        entity.items()
    )
    return codes(answer.entries)[0], answer.entries[0].error_message


async def described(
    here: Room, version: int, *components: tuple[str, int, str | None], strict: bool = False
) -> Any:
    api = served(describe_client_quotas)
    asked = tuple(
        nested(api, version, "ComponentData", entity_type=kind, match_type=how, match=name)
        for kind, how, name in components
    )
    answer = await ask(here, api, version, components=asked, strict=strict)
    if codes([answer]) != ["NONE"]:
        assert answer.entries == ()  # Java clients cannot bear null
        return codes([answer])[0]
    return sorted(
        (
            "/".join(f"{one.entity_type}={one.entity_name}" for one in entry.entity),
            {one.key: one.value for one in entry.values},
        )
        for entry in answer.entries
    )


@pytest.mark.parametrize("version", versions(served(alter_client_quotas)))
def test_quotas_are_set_described_and_kept(tmp_path: Path, version: int) -> None:
    disk = SimDisk()
    everything = [
        ("client-id=None", {FETCH: 7.0}),
        ("ip=10.0.0.1", {"connection_creation_rate": 4.0}),
        ("user=None", {REQUEST: 12.5}),
        ("user=a/b", {PRODUCE: 1.0}),
        ("user=a/b/client-id=x y", {PRODUCE: 2.0, FETCH: 3.0}),
    ]

    async def first() -> None:
        async with room(tmp_path, disk, kill=True) as here:
            for entity, quotas in (
                ({"client-id": None}, {FETCH: 7.0, PRODUCE: 1.0}),
                ({"ip": "10.0.0.1"}, {"connection_creation_rate": 4.0}),
                ({"user": None}, {REQUEST: 12.5}),
                ({"user": "a/b"}, {PRODUCE: 1.0}),
                ({"user": "a/b", "client-id": "x y"}, {PRODUCE: 2.0, FETCH: 3.0}),
            ):
                named: dict[str, str | None] = dict(entity)
                assert await alter(here, version, named, **quotas) == ("NONE", None)
            assert await alter(here, version, {"client-id": None}, producer_byte_rate=None) == (
                "NONE",
                None,
            )
            assert await described(here, version) == everything

    async def second() -> None:
        async with room(tmp_path, disk) as here:
            assert await described(here, version) == everything
            assert await described(here, version, ("user", 0, "a/b")) == everything[3:]
            assert await described(here, version, ("user", 0, "a/b"), strict=True) == [
                everything[3]
            ]
            assert await described(here, version, ("user", 1, None)) == [everything[2]]
            assert await described(here, version, ("user", 2, None)) == everything[2:]
            both = [("user", 2, None), ("client-id", 0, "x y")]
            assert await described(here, version, *both, strict=True) == [everything[4]]
            assert await described(here, version, strict=True) == []
            node = await here.store.get("/config/users/a%2Fb/clients/x%20y")
            assert b'"producer_byte_rate":"2.0"' in node.value

    play(first())
    play(second())


def test_what_is_no_quota_and_no_filter_is_refused(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        for entity, quotas, said in (
            ({}, {PRODUCE: 1.0}, "empty client quota entity"),
            ({"shoe": "4"}, {PRODUCE: 1.0}, "Unhandled client quota entity type"),
            ({"user": ""}, {PRODUCE: 1.0}, "Empty user not supported"),
            ({"ip": "10.0.0.1", "user": "u"}, {PRODUCE: 1.0}, "empty client quota entity"),
            ({"ip": "no address"}, {"connection_creation_rate": 1.0}, "not a valid IP"),
            ({"ip": "10.0.0.1"}, {PRODUCE: 1.0}, "Invalid configuration key"),
            ({"user": "u"}, {"speed": 1.0}, "Invalid configuration key"),
            ({"user": "u"}, {PRODUCE: 1.5}, "must be a Long value"),
            ({"user": "u"}, {PRODUCE: -1.0}, "greater than 0"),
            ({"user": "u"}, {REQUEST: float("nan")}, "greater than 0"),
        ):
            code, message = await alter(here, 1, dict(entity), **quotas)
            assert code == "INVALID_REQUEST"
            assert message is not None
            assert said in message
        assert here.broker.quotas.limits == {}
        for components, code in (
            ([("", 2, None)], "INVALID_REQUEST"),
            ([("shoe", 2, None)], "UNSUPPORTED_VERSION"),
            ([("user", 2, None), ("user", 1, None)], "INVALID_REQUEST"),
            ([("user", 0, None)], "INVALID_REQUEST"),
            ([("user", 1, "u")], "INVALID_REQUEST"),
            ([("user", 9, None)], "INVALID_REQUEST"),
            ([("user", 2, None), ("ip", 2, None)], "INVALID_REQUEST"),
        ):
            assert await described(here, 1, *components) == code

    tell(tmp_path, story)


# --- at a connection -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with BrokerThread(memory=True) as one:
        one.create_topics("t", "read")
        yield one


class Bounded(Link):
    """A connection of a client with quotas."""

    def __init__(self, broker: BrokerThread, client: str) -> None:
        super().__init__(broker, client)
        self.topic = "t"
        topics = broker.call(lambda server: server.broker.image.topics)
        self.topic_id = topics["t"].topic_id

    def write(self, size: int, acks: int, version: int) -> None:
        now = int(time.time() * 1000)
        records = batch.build([new_record(b"x" * size, timestamp=now)])
        data = [produce.PartitionData(0, records)]
        request = produce.ProduceRequest(
            None, acks, 10_000, [produce.TopicData(self.topic, self.topic_id, data)]
        )
        self.send(ApiKey.PRODUCE, version, produce.encode_request(version, request))

    def written(self, version: int) -> produce.ProduceResponse:
        return produce.decode_response(version, self.receive(ApiKey.PRODUCE, version))

    def read(self, version: int = 12) -> fetch.FetchResponse:
        asked = fetch.FetchPartition(0, -1, 0, -1, -1, 1 << 20)
        wanted = [fetch.FetchTopic(self.topic, self.topic_id, [asked])]
        request = fetch.FetchRequest(0, 1, 1 << 20, 0, 0, -1, wanted)
        self.send(ApiKey.FETCH, version, fetch.encode_request(version, request))
        return fetch.decode_response(version, self.receive(ApiKey.FETCH, version))


@contextmanager
def bound(broker: BrokerThread, client: str, **limits: float) -> Iterator[Bounded]:
    """A connection of a client with quotas."""
    broker.call(lambda server: server.broker.quotas.put(Entity(client=client), limits))
    link = Bounded(broker, client)
    try:
        yield link
    finally:
        link.socket.close()
        broker.call(lambda server: server.broker.quotas.put(Entity(client=client), {}))


@pytest.mark.parametrize("version", [3, 8, 9, 10, 13])
@pytest.mark.parametrize("acks", [1, -1])
def test_a_producer_is_told_to_wait_and_not_read_meanwhile(
    broker: BrokerThread, version: int, acks: int
) -> None:
    client = f"p-{version}-{acks}"
    wait = 0
    with bound(broker, client, producer_byte_rate=100_000.0) as link:
        for _ in range(100):  # the third is over the quota, a slow machine's a later one
            asked = time.monotonic()
            link.write(340_000, acks, version)
            wait = link.written(version).throttle_ms
            if wait:
                break
        assert 0 < wait < 1000
        link.write(1, acks, version)
        assert link.written(version).topics[0].partitions[0].error_code == 0
        assert time.monotonic() - asked >= wait / 1000


def test_a_producer_without_answers_is_not_read_either(broker: BrokerThread) -> None:
    with bound(broker, "quiet", producer_byte_rate=100_000.0) as link:
        began = time.monotonic()
        link.write(1_020_000, 0, 9)
        request = heartbeat.HeartbeatRequest("g", 0, "m")
        link.send(ApiKey.HEARTBEAT, 4, heartbeat.encode_request(4, request))
        link.receive(ApiKey.HEARTBEAT, 4)
        assert time.monotonic() - began >= 0.15


def test_a_consumer_over_its_quota_gets_nothing_but_the_wait(broker: BrokerThread) -> None:
    with bound(broker, "writer") as writer:
        writer.topic = "read"
        for _ in range(8):
            writer.write(2000, -1, 9)
            assert writer.written(9).topics[0].partitions[0].error_code == 0
    with bound(broker, "reader", consumer_byte_rate=1000.0) as link:
        link.topic = "read"
        first = link.read()
        assert first.throttle_ms == 0
        size = len(first.topics[0].partitions[0].records or b"")
        assert 2000 < size <= 10_000
        second = link.read()
        assert second.topics == []
        assert 0 < second.throttle_ms < 11_000


def test_a_batch_beyond_the_whole_quota_is_given_once_and_waited_for_then() -> None:
    clock = SimClock()
    quotas = Quotas(clock.monotonic, 11, 1)
    quotas.put(Entity(client="c"), {FETCH: 1000.0})
    quota = quotas.of("u", "c")
    assert quota.fetched(100_000) == 0
    wait = quota.fetched(1)
    assert wait > 0
    clock.advance(11)
    assert quota.fetched(1) == 0


def test_who_keeps_the_broker_busy_waits_whatever_he_asks(broker: BrokerThread) -> None:
    with bound(broker, "busy", request_percentage=0.000001) as link:
        body = metadata.encode_request(12, metadata.MetadataRequest(None))
        link.send(ApiKey.METADATA, 12, body)
        answer = metadata.decode_response(12, link.receive(ApiKey.METADATA, 12))
        assert answer.throttle_ms == 1000
        assert {topic.name for topic in answer.topics} == {"t", "read"}
    counted = broker.call(lambda server: dict(server.broker.quotas.throttled))
    assert sum(counted.values()) > 0


def test_without_quotas_nobody_asks(broker: BrokerThread) -> None:
    assert not broker.call(lambda server: server.broker.quotas.active)
