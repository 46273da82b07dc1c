"""Client metrics (KIP-714): who is asked for what, which pushes are taken, what becomes of them."""

import struct
import time
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import Producer
from hypothesis import given
from hypothesis import strategies as st

from headrace.broker.telemetry import SERIES_SECONDS_MAX, Client
from headrace.frontends.http.exposition import render
from headrace.frontends.http.gauges import register_clients
from headrace.frontends.kafka.telemetry import get_telemetry_subscriptions, push_telemetry
from headrace.model.errors import ApiError, Malformed
from headrace.record.compression import Codec, compress
from headrace.testing import BrokerThread
from headrace.testing.clock import SimClock
from headrace.wire.kafka.api import ApiKey
from headrace.wire.otlp import Point, points
from tests.support.admin import ask, codes, tell
from tests.support.client.client import FrameClient
from tests.support.net.served import served
from tests.support.processes.broker import Room

GET, PUSH = served(get_telemetry_subscriptions), served(push_telemetry)
CLIENT = Client("c-1", "librdkafka", "2.16.1", "10.1.2.3", 4711)


# --- OpenTelemetry's messages, written by hand ----------------------------------------------------


def varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def message(number: int, body: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(body)) + body


def number_of(value: float, **attributes: str) -> bytes:
    pairs = b"".join(
        message(7, message(1, name.encode()) + message(2, message(1, text.encode())))
        for name, text in attributes.items()
    )
    stamp = varint(3 << 3 | 1) + struct.pack("<Q", 1)
    if isinstance(value, int):
        return pairs + stamp + varint(6 << 3 | 1) + struct.pack("<q", value)
    return stamp + varint(4 << 3 | 1) + struct.pack("<d", value) + pairs


def metric(name: str, *numbers: bytes, delta: bool | None = None) -> bytes:
    """A gauge, or with `delta` a sum."""
    body = b"".join(message(1, one) for one in numbers)
    if delta is not None:
        body += varint(2 << 3) + varint(1 if delta else 2)
    return message(1, name.encode()) + message(3, b"1") + message(5 if delta is None else 7, body)


def pushed(*metrics: bytes) -> bytes:
    scope = message(1, b"") + b"".join(message(2, one) for one in metrics)
    return message(1, message(1, b"") + message(2, scope))


SOME = pushed(
    metric("a.gauge", number_of(2.5, node="1"), number_of(-3)),
    metric("a.sum", number_of(4), delta=True),
    metric("a.total", number_of(4), delta=False),
)


def test_numbers_are_read_with_their_attributes() -> None:
    assert list(points(SOME)) == [
        Point("a.gauge", (("node", "1"),), 2.5, False),
        Point("a.gauge", (), -3, False),
        Point("a.sum", (), 4, True),
        Point("a.total", (), 4, False),
    ]


@given(st.binary(max_size=300))
def test_what_is_no_message_is_refused_and_nothing_worse(data: bytes) -> None:
    try:
        list(points(data))
    except Malformed:
        return


@given(st.integers(0, len(SOME) - 1), st.integers(0, 255))
def test_neither_does_a_changed_byte_do_harm(at: int, byte: int) -> None:
    broken = bytearray(SOME)
    broken[at] = byte
    try:
        list(points(broken))
    except Malformed:
        return


# --- subscriptions and pushes ---------------------------------------------------------------------


async def get(here: Room, instance: UUID | None = None) -> Any:
    return await ask(here, GET, 0, client_instance_id=instance)


async def push(here: Room, found: Any, payload: bytes = b"", **fields: Any) -> str:
    values = {
        "client_instance_id": found.client_instance_id,
        "subscription_id": found.subscription_id,
        "terminating": False,
        "compression_type": 0,
        "metrics": payload,
        **fields,
    }
    try:
        return codes([await ask(here, PUSH, 0, **values)])[0]
    except ApiError as error:
        return error.code.name


async def refused(here: Room, instance: UUID | None = None) -> str:
    with pytest.raises(ApiError) as caught:
        await get(here, instance)
    return caught.value.code.name


def subscribe(here: Room, name: str, **settings: str) -> None:
    given = {key.replace("_", "."): value for key, value in settings.items()}
    here.broker.metrics_subscriptions.put(name, given)


def pass_time(here: Room, seconds: float) -> None:
    clock = here.broker.clock
    assert isinstance(clock, SimClock)
    clock.advance(seconds)


def test_a_client_is_asked_for_what_matches_it(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        telemetry = here.broker.telemetry
        nothing = await get(here)
        assert nothing.requested_metrics == ()
        assert nothing.push_interval == timedelta(minutes=5)
        assert nothing.client_instance_id.int != 0
        assert nothing.accepted_compression_types == (4, 3, 1, 2)
        assert nothing.telemetry_max_bytes == 1 << 20
        subscribe(here, "one", metrics="a.,b.", match="client_id=c-.*", interval_ms="1000")
        subscribe(here, "two", metrics="b.,c.", match="client_software_name=librdkafka")
        subscribe(here, "not", metrics="*", match="client_source_address=10\\.9\\..*")
        subscribe(here, "nor", metrics="*", match="client_id=c,client_software_version=2.*")
        found = telemetry.subscribe(None, CLIENT)
        assert found.metrics == ("a.", "b.", "c.")
        assert found.interval_ms == 1000
        again = telemetry.subscribe(bytes(15) + b"\x07", CLIENT)
        assert again.subscription_id != found.subscription_id
        subscribe(here, "all", metrics="*", match="client_source_port=4711")
        changed = telemetry.subscribe(found.instance, CLIENT)
        assert changed.metrics == ("*",)
        assert changed.instance == found.instance
        assert changed.subscription_id != found.subscription_id

    tell(tmp_path, story)


def test_who_asks_or_pushes_too_early_is_told_so(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        subscribe(here, "all", metrics="*", interval_ms="1000")
        found = await get(here)
        assert await push(here, found) == "NONE"  # the first one after asking
        assert await push(here, found) == "THROTTLING_QUOTA_EXCEEDED"
        assert await refused(here, found.client_instance_id) == "THROTTLING_QUOTA_EXCEEDED"
        pass_time(here, 1)
        assert await push(here, found) == "NONE"
        assert await push(here, found, terminating=True) == "NONE"
        assert await push(here, found) == "INVALID_REQUEST"

    tell(tmp_path, story)


def test_what_cannot_be_taken_is_refused_by_its_code(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        subscribe(here, "all", metrics="*", interval_ms="1000")
        for code, payload, fields in (
            ("UNKNOWN_SUBSCRIPTION_ID", b"", {"subscription_id": 7}),
            ("UNSUPPORTED_COMPRESSION_TYPE", b"", {"compression_type": 9}),
            ("TELEMETRY_TOO_LARGE", bytes(1001), {}),
            ("TELEMETRY_TOO_LARGE", compress(Codec.ZSTD, bytes(1001)), {"compression_type": 4}),
            ("INVALID_RECORD", b"\xff" * 20, {}),
            ("INVALID_RECORD", b"no zstd", {"compression_type": 4}),
            ("INVALID_REQUEST", b"", {"client_instance_id": UUID(int=0)}),
        ):
            found = await get(here)
            assert await push(here, found, payload, **fields) == code
            if code in {"UNKNOWN_SUBSCRIPTION_ID", "UNSUPPORTED_COMPRESSION_TYPE"}:
                await get(here, found.client_instance_id)  # at once, since it has to
        assert here.broker.telemetry.series() == {}

    tell(tmp_path, story, telemetry_max_bytes="1000")


@pytest.mark.parametrize("codec", list(Codec), ids=lambda one: one.name)
def test_what_is_pushed_becomes_series(tmp_path: Path, codec: Codec) -> None:
    async def story(here: Room) -> None:
        subscribe(here, "all", metrics="*", interval_ms="1000")
        found = await get(here)
        for _ in range(3):
            payload = compress(codec, SOME)
            assert await push(here, found, payload, compression_type=int(codec)) == "NONE"
            pass_time(here, 1)
        assert here.broker.telemetry.series() == {
            ("a.gauge", "test", "node=1"): 2.5,
            ("a.gauge", "test", ""): -3,
            ("a.sum", "test", ""): 12,
            ("a.total", "test", ""): 4,
        }
        register_clients(here.broker)
        text = render(here.broker.metrics).decode()
        line = 'headrace_client_metric{attributes="node=1",client_id="test",metric="a.gauge"} 2.5'
        assert line in text
        pass_time(here, SERIES_SECONDS_MAX)
        assert here.broker.telemetry.series() == {}

    tell(tmp_path, story)


def test_series_are_bounded_and_what_is_dropped_is_counted(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        telemetry = here.broker.telemetry
        telemetry.take(CLIENT, [Point(f"m{at}", (), at, False) for at in range(5)])
        assert len(telemetry.series()) == 3
        assert telemetry.dropped == 2
        pass_time(here, SERIES_SECONDS_MAX)
        telemetry.take(CLIENT, [Point("new", (), 1, False)])
        assert set(telemetry.series()) == {("new", "c-1", "")}

    tell(tmp_path, story, telemetry_series_max="3")


@pytest.mark.parametrize("wanted", [False, True])
def test_clients_hear_of_it_only_where_something_is_wanted(tmp_path: Path, wanted: bool) -> None:
    async def story(here: Room) -> None:
        if wanted:
            subscribe(here, "one", metrics="a.")
        client = FrameClient(here)
        answer = await client.ask(
            ApiKey.API_VERSIONS, 4, client_software_name="n", client_software_version="1"
        )
        keys = {one.api_key for one in answer.api_keys}
        assert keys >= {0, 1, 18}
        assert ({71, 72} <= keys) is wanted

    tell(tmp_path, story)


def test_librdkafka_pushes_what_it_is_asked_for() -> None:
    with BrokerThread(memory=True) as broker:
        broker.create_topics("t")
        asked = {"metrics": "org.apache.kafka.producer.connection", "interval.ms": "100",
                 "match": "client_software_name=.*"}  # fmt: skip
        broker.call(lambda server: server.broker.metrics_subscriptions.put("s", asked))
        producer = Producer({"bootstrap.servers": broker.bootstrap, "client.id": "pushing"})
        deadline = time.monotonic() + 30
        found: set[tuple[str, str, str]] = set()
        while not found and time.monotonic() < deadline:
            producer.produce("t", b"v")
            producer.flush(5)
            producer.poll(0.1)
            found = set(broker.call(lambda server: server.broker.telemetry.series()))
        del producer
    assert found
    assert {client for _, client, _ in found} == {"pushing"}
    assert all(name.startswith("org.apache.kafka.producer.connection") for name, _, _ in found)
