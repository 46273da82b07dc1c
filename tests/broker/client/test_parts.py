"""The client's parts that need no broker."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.client.calls.call import ColdCall
from headrace.client.client import common_version
from headrace.client.consumer.subscription import (
    assign_ranges,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from headrace.client.producer.producer import Producer
from headrace.client.sync import connect, run
from headrace.client.transport.blocking import BlockingTransport
from headrace.client.transport.handshake import InitProducerCall, VersionsCall
from headrace.client.transport.port import Address, CannotConnect, parse_bootstrap
from headrace.model.errors import ApiError, ErrorCode, Malformed
from headrace.model.invariant import InvariantError
from headrace.model.nouns import TopicPartition
from headrace.testing import BrokerThread
from headrace.wire.kafka import kio_codec
from headrace.wire.kafka.api import ApiKey

_TOPICS = st.text("abcdefg.-", min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("h:1", [("h", 1)]),
        ("h", [("h", 9092)]),
        ("a:1, b:2,", [("a", 1), ("b", 2)]),
        ("[::1]:5", [("::1", 5)]),
        ("[::1]", [("::1", 9092)]),
        ("::1", [("::1", 9092)]),
    ],
)
def test_bootstrap_is_a_list_of_addresses(text: str, expected: list[tuple[str, int]]) -> None:
    assert parse_bootstrap(text) == [Address(*one) for one in expected]


@pytest.mark.parametrize("text", ["", ",", "h:port", ":9092", "h:0", "h:70000"])
def test_bootstrap_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="host:port"):
        parse_bootstrap(text)


@given(st.lists(_TOPICS, max_size=5))
def test_a_subscription_is_read_back(topics: list[str]) -> None:
    assert decode_subscription(encode_subscription(topics)) == topics


@given(st.lists(st.builds(TopicPartition, _TOPICS, st.integers(0, 99)), max_size=9, unique=True))
def test_an_assignment_is_read_back(partitions: list[TopicPartition]) -> None:
    assert sorted(decode_assignment(encode_assignment(partitions))) == sorted(partitions)


@given(st.binary(max_size=40))
def test_foreign_bytes_are_malformed_at_worst(data: bytes) -> None:
    for decode in (decode_assignment, decode_subscription):
        try:
            decode(data)
        except Malformed:
            continue


@given(
    st.dictionaries(_TOPICS, st.lists(st.sampled_from("xyz"), unique=True), max_size=5),
    st.dictionaries(st.sampled_from("xyz"), st.integers(1, 7)),
)
def test_ranges_give_each_wanted_partition_to_one_member(
    members: dict[str, list[str]], partitions: dict[str, int]
) -> None:
    given_out = assign_ranges(members, partitions)
    wanted = {
        TopicPartition(topic, number)
        for topic, count in partitions.items()
        if any(topic in topics for topics in members.values())
        for number in range(count)
    }
    everything = [one for share in given_out.values() for one in share]
    assert sorted(everything) == sorted(wanted)
    for member, share in given_out.items():
        assert all(one.topic in members[member] for one in share)


def test_ranges_are_those_of_the_articles_numbers() -> None:
    # 3 topics of 3 partitions, 2 members: 6 and 3, since each topic is divided by itself.
    shares = assign_ranges({"a": list("xyz"), "b": list("xyz")}, {"x": 3, "y": 3, "z": 3})
    assert [len(shares["a"]), len(shares["b"])] == [6, 3]


@pytest.mark.parametrize("version", range(5))
def test_the_producer_id_request_is_kios(version: int) -> None:
    call = InitProducerCall()
    body = b"".join(call.encode(version, 7, "me"))
    head = 4 + 8 + 2 + len("me") + (version >= 2)
    entity = kio_codec.decode_request(ApiKey.INIT_PRODUCER_ID, version, memoryview(body)[head:])
    assert entity.transactional_id is None
    assert entity.transaction_timeout.total_seconds() == 60


def test_versions_in_common_are_the_newest_of_both() -> None:
    call = InitProducerCall()
    assert common_version({}, call) == 4
    assert common_version({22: (0, 2)}, call) == 2
    assert common_version({22: (0, 9)}, call) == 4
    for served in ({22: (5, 9)}, {3: (0, 9)}):
        with pytest.raises(ApiError, match="UNSUPPORTED_VERSION"):
            common_version(served, call)


def test_an_answer_with_an_error_to_versions_is_raised() -> None:
    with pytest.raises(ApiError) as caught:
        VersionsCall().decode(0, memoryview(b"\x00\x23\x00\x00\x00\x00"))
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_fields_an_older_version_lacks_are_left_out() -> None:
    def build(maker: object) -> object:
        return maker.request(states_filter=("Stable",), types_filter=("classic",))  # type: ignore[attr-defined]

    call = ColdCall(ApiKey.LIST_GROUPS, build, lambda response: response)
    for version in range(6):
        assert call.encode(version, 1, "me")


def test_run_refuses_to_wait_for_a_loop() -> None:
    async def wait() -> None:
        await asyncio.sleep(1)

    with pytest.raises((InvariantError, RuntimeError)):
        run(wait())


def test_nobody_there_is_said_in_words(unused_port: int) -> None:
    client = connect(f"127.0.0.1:{unused_port}")
    with pytest.raises(CannotConnect, match="connection refused"):
        run(client.metadata())


def test_a_patient_client_waits_as_long_as_it_may(unused_port: int) -> None:
    client = connect(f"127.0.0.1:{unused_port}", retry_seconds=0.3, patient=True)
    transport = BlockingTransport()
    began = transport.now()
    with pytest.raises(CannotConnect):
        run(client.metadata())
    assert 0.1 < transport.now() - began < 5


@pytest.fixture
def unused_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_a_gap_in_the_first_batchs_sequence_is_told_as_what_it_is() -> None:
    with BrokerThread() as broker, connect(broker.bootstrap, retry_seconds=1.0) as client:
        producer = Producer(client)

        async def send(count: int) -> TopicPartition:
            for _ in range(count):
                where = await producer.send("t", b"x", timestamp=1, partition=0)
                await producer.dispatch()
            return where

        where = run(send(1))
        run(producer.flush())
        producer._sequences[where] += 5
        run(send(2))
        with pytest.raises(ApiError) as caught:
            run(producer.flush())
        assert caught.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
