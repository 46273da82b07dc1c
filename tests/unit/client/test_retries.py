"""What a client does when something fails: which failures it tries again, how long, how often."""

import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headrace.client.calls.call import ColdCall
from headrace.client.calls.metadata import Metadata
from headrace.client.client import (
    BACKOFF_SECONDS_MAX,
    BACKOFF_SECONDS_MIN,
    CONNECT_SECONDS,
    NEXT_ADDRESS_SECONDS,
    Client,
    common_version,
)
from headrace.client.producer.partitioner import StickyPartitioner
from headrace.client.sync import run
from headrace.client.transport.port import (
    Address,
    CannotConnect,
    ConnectionLost,
    Link,
    TimedOut,
    Unanswered,
    parse_bootstrap,
)
from headrace.model.errors import ApiError, ErrorCode, HeadraceError
from headrace.wire.kafka.api import ApiKey
from tests.support.client.hand_transport import HandTransport
from tests.support.cluster.hand_cluster import HandCluster

LEADERLESS = ApiError(ErrorCode.LEADER_NOT_AVAILABLE)


def failing(times: int, error: HeadraceError) -> Callable[[], Awaitable[str]]:
    """An attempt that fails so many times."""
    left = times

    async def attempt() -> str:
        nonlocal left
        left -= 1
        if left >= 0:
            raise error
        return "done"

    return attempt


def made(*, patient: bool = False) -> tuple[Client, HandTransport]:
    """A client that tries for 30 seconds, and its transport."""
    transport = HandTransport()
    return Client(transport, [Address("h", 1)], retry_seconds=30, patient=patient), transport


@pytest.mark.parametrize("error", [LEADERLESS, ConnectionLost("gone"), TimedOut("late")])
def test_what_may_pass_is_tried_again_after_ever_longer_waits_up_to_a_second(
    error: HeadraceError,
) -> None:
    client, transport = made()
    assert run(client.retrying(failing(10, error))) == "done"
    assert transport.slept[:3] == [BACKOFF_SECONDS_MIN * factor for factor in (1, 2, 4)]
    assert transport.slept[-2:] == [BACKOFF_SECONDS_MAX] * 2


@pytest.mark.parametrize("error", [LEADERLESS, ConnectionLost("gone"), TimedOut("late")])
def test_it_is_given_up_when_the_next_try_would_come_too_late(error: HeadraceError) -> None:
    client, transport = made()
    with pytest.raises(type(error)):
        run(client.retrying(failing(1000, error)))
    assert 29 <= transport.seconds <= 30


def test_what_will_not_pass_is_raised_at_once() -> None:
    client, transport = made()
    with pytest.raises(ApiError, match="INVALID_TOPIC"):
        run(client.retrying(failing(1, ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION))))
    assert transport.slept == []


@pytest.mark.parametrize(("patient", "tries"), [(False, 0), (True, 3)])
def test_only_a_patient_client_waits_for_brokers_that_are_not_there(
    patient: bool, tries: int
) -> None:
    client, transport = made(patient=patient)
    attempt = failing(3, CannotConnect("nobody"))
    if patient:
        assert run(client.retrying(attempt)) == "done"
    else:
        with pytest.raises(CannotConnect):
            run(client.retrying(attempt))
    assert len(transport.slept) == tries


def test_coordinators_are_asked_for_anew_after_a_failure() -> None:
    client, _ = made()
    client._coordinators[0, "group"] = Address("h", 2)
    run(client.retrying(failing(1, ApiError(ErrorCode.NOT_COORDINATOR))))
    assert client._coordinators == {}


def test_a_shorter_patience_for_one_question_is_not_kept_for_the_next() -> None:
    client, _ = made()
    with pytest.raises(CannotConnect):
        run(client.leaders(["t"], retry_seconds=1))
    assert client.retry_seconds == 30


@pytest.mark.parametrize(("seconds", "least"), [(None, 29.0), (5.0, 4.0)])
def test_leaders_are_waited_for_as_long_as_is_said_or_else_as_the_client_does(
    seconds: float | None, least: float
) -> None:
    client, transport = made(patient=True)
    with pytest.raises(CannotConnect):
        run(client.leaders(["t"], retry_seconds=seconds))
    assert least <= transport.seconds <= (seconds or 30)


def test_an_api_that_is_not_served_is_refused_in_every_version_known_here() -> None:
    call = ColdCall(ApiKey.LIST_GROUPS, lambda make: make.request(), lambda answer: answer)
    assert call.versions[0] == 0
    with pytest.raises(ApiError) as refused:
        common_version({ApiKey.FETCH: (0, 4)}, call)
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION
    assert "LIST_GROUPS" in str(refused.value)
    assert common_version({ApiKey.LIST_GROUPS: (0, 0)}, call) == 0
    assert common_version({}, call) == call.versions[1]


def test_batches_without_keys_go_to_another_partition_each() -> None:
    partitioner = StickyPartitioner(random.Random(1))
    for partitions in (2, 3, 7):
        for _ in range(50):
            before = partitioner.choose(None, partitions)
            partitioner.next_batch(partitions)
            assert partitioner.choose(None, partitions) != before


@pytest.mark.parametrize("port", ["0", "65536"])
def test_a_port_that_is_none_is_refused(port: str) -> None:
    with pytest.raises(ValueError, match="host:port"):
        parse_bootstrap(f"h:{port}")


class _Tried(HandTransport):
    """Nobody can be connected to, and who was tried is noted."""

    def __init__(self) -> None:
        super().__init__()
        self.tried: list[int] = []

    async def connect(self, address: Address, seconds: float) -> Link:
        self.tried.append(address.port)
        return await super().connect(address, seconds)


def test_brokers_heard_of_are_tried_too_after_those_named_first_and_each_once() -> None:
    transport = _Tried()
    client = Client(transport, [Address("h", 1), Address("h", 2)])
    known = {number: Address("h", number) for number in (2, 3, 4)}
    client.known = Metadata("c", 2, known, {}, {})
    with pytest.raises(CannotConnect, match="h:1"):
        run(client.any_link())
    assert transport.tried == [1, 2, 3, 4]


class _SilentLink:
    """A connection whose broker never answers: a paused virtual machine."""

    closed = False

    def __init__(self, transport: "_Silent", address: Address) -> None:
        self.versions: dict[int, tuple[int, int]] = {}
        self._transport = transport
        self.address = address

    def next_correlation_id(self) -> int:
        return 1

    def send(self, frame: object, *, answered: bool = True) -> "_SilentLink":
        return self

    async def wait(self, seconds: float) -> memoryview:
        self._transport.seconds += seconds
        raise TimedOut(f"{self.address}: no answer in time")

    def close(self) -> None:
        self.closed = True


class _Silent(HandCluster):
    """A cluster in which the brokers at some ports accept connections and never answer."""

    silent: frozenset[int] = frozenset()
    unanswered_ports: frozenset[int] = frozenset()

    async def connect(self, address: Address, seconds: float) -> Any:
        if address.port in self.unanswered_ports:
            self.seconds += seconds
            raise Unanswered(str(address))
        if address.port in self.silent:
            return _SilentLink(self, address)
        return await super().connect(address, seconds)


@pytest.mark.parametrize("kind", ["silent", "unanswered_ports"])
def test_the_next_address_is_tried_after_a_short_wait(kind: str) -> None:
    cluster = _Silent()
    setattr(cluster, kind, frozenset({1}))
    began = cluster.seconds
    client = Client(cluster, [Address("h", 1), Address("h", 0)], request_timeout_seconds=15)
    run(client.metadata())
    assert cluster.seconds - began == NEXT_ADDRESS_SECONDS
    assert cluster.slept == []
    client.close()
    run(client.metadata())
    assert cluster.seconds - began == NEXT_ADDRESS_SECONDS, "the silent address is tried last"


def test_an_address_that_answers_again_takes_its_place_again() -> None:
    cluster = _Silent()
    cluster.silent = frozenset({0, 1})
    client = Client(cluster, [Address("h", 1), Address("h", 0)], retry_seconds=0)
    with pytest.raises(TimedOut):
        run(client.metadata())
    cluster.silent = frozenset()
    assert run(client.any_link()).address.port == 1
    assert client._silent == {Address("h", 0)}


def test_an_open_connection_is_taken_before_a_closed_one_is_made_again() -> None:
    client = Client(HandCluster(), [Address("h", 1), Address("h", 0)])
    closed, still_open = (run(client.link_to(Address("h", port))) for port in (1, 0))
    closed.close()
    assert run(client.any_link()) is still_open


def test_silent_addresses_get_the_whole_time_only_when_no_other_answers() -> None:
    cluster = _Silent()
    cluster.silent = frozenset({0, 1})
    began = cluster.seconds
    client = Client(cluster, [Address("h", 1), Address("h", 0)], retry_seconds=0)
    with pytest.raises(TimedOut, match="h:1"):
        run(client.metadata())
    assert cluster.seconds - began == 2 * (NEXT_ADDRESS_SECONDS + CONNECT_SECONDS)


def test_single_silent_address_fails_after_the_connect_timeout() -> None:
    cluster = _Silent()
    cluster.silent = frozenset({1})
    began = cluster.seconds
    client = Client(cluster, [Address("h", 1)], request_timeout_seconds=30, retry_seconds=0)
    with pytest.raises(TimedOut):
        run(client.metadata())
    assert cluster.seconds - began == CONNECT_SECONDS


def test_an_outage_has_its_own_time_and_errors_theirs_behind_it() -> None:
    client, transport = made(patient=True)
    client.outage_seconds = 100.0
    told: list[HeadraceError] = []
    client.on_retry = told.append
    errors: list[HeadraceError] = [CannotConnect("gone")] * 60 + [LEADERLESS] * 20

    async def attempt() -> str:
        if errors:
            raise errors.pop(0)
        return "done"

    assert run(client.retrying(attempt)) == "done", "20 s of errors behind 60 s of outage"
    assert transport.seconds > 70
    assert len(told) == 80
    client.outage_seconds = 5.0
    with pytest.raises(CannotConnect):
        run(client.retrying(failing(60, CannotConnect("gone"))))
