"""The wait that quotas ask for, written into answers of every shape at its place to the byte."""

import struct
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.broker.quotas import QuotaKey, Quotas
from headrace.frontends.kafka.connection.mutation_quota import mutations, throttled
from headrace.frontends.kafka.connection.registry import APIS
from headrace.frontends.kafka.connection.route import Route
from headrace.frontends.kafka.connection.throttle import Throttle, milliseconds
from headrace.frontends.kafka.connection.throttled_answers import told
from headrace.net.pending import Pending
from headrace.observe.metrics import ApiStats
from headrace.testing.clock import SimClock
from headrace.wire.kafka.api import ApiKey

MS = 0x01020304
WRITTEN = struct.pack(">i", MS)
NO_WAIT = bytes(4)


def route(key: ApiKey, version: int) -> Route:
    api = next(api for api in APIS if api.key == key)
    return Route(api, version, ApiStats())


@pytest.mark.parametrize(
    ("key", "version", "head"),
    [
        (ApiKey.FETCH, 4, 8),
        (ApiKey.FETCH, 12, 9),
        (ApiKey.LIST_OFFSETS, 2, 8),
        (ApiKey.METADATA, 3, 8),
        (ApiKey.OFFSET_COMMIT, 3, 8),
        (ApiKey.HEARTBEAT, 1, 8),
        (ApiKey.SHARE_FETCH, 1, 9),
        (ApiKey.SHARE_ACKNOWLEDGE, 1, 9),
        (ApiKey.LIST_GROUPS, 1, 8),
        (ApiKey.LIST_GROUPS, 3, 9),
    ],
)
def test_a_wait_is_written_right_behind_the_header(key: ApiKey, version: int, head: int) -> None:
    answer = b"h" * head + NO_WAIT + b"rest"
    assert told(route(key, version), answer, None, MS) == b"h" * head + WRITTEN + b"rest"


@pytest.mark.parametrize(
    ("key", "version"),
    [
        (ApiKey.LIST_OFFSETS, 1),
        (ApiKey.METADATA, 2),
        (ApiKey.OFFSET_COMMIT, 2),
        (ApiKey.HEARTBEAT, 0),
        (ApiKey.API_VERSIONS, 4),
        (ApiKey.LIST_GROUPS, 0),
    ],
)
def test_an_answer_without_a_place_for_the_wait_stays_as_it_is(key: ApiKey, version: int) -> None:
    answer = b"h" * 9 + NO_WAIT + b"rest"
    assert told(route(key, version), answer, None, MS) is answer


@pytest.mark.parametrize(("version", "behind"), [(8, b""), (9, b"\0")])
def test_a_produced_batchs_wait_is_at_the_end_before_the_tagged_fields(
    version: int, behind: bytes
) -> None:
    answer = b"answer" + NO_WAIT + behind
    assert told(route(ApiKey.PRODUCE, version), answer, None, MS) == b"answer" + WRITTEN + behind


def test_a_fetchs_answer_of_several_parts_keeps_all_of_them() -> None:
    records = [b"first", b"between", b"second", b"tail"]
    parts: Any = [b"h" * 9, NO_WAIT + b"rest", *records]
    expected = [b"h" * 9 + WRITTEN + b"rest", *records]
    assert told(route(ApiKey.FETCH, 12), parts, None, MS) == expected


def test_an_answer_that_comes_later_is_told_the_wait_behind_its_header() -> None:
    for head in (None, lambda body: b"h" * 9 + body):
        pending = Pending()
        pending.head = head
        assert told(route(ApiKey.FETCH, 12), pending, None, MS) is pending
        pending.resolve(NO_WAIT + b"rest" if head else b"h" * 9 + NO_WAIT + b"rest")
        assert pending.parts() == b"h" * 9 + WRITTEN + b"rest"


def test_only_the_latest_answer_of_a_group_is_told_the_wait() -> None:
    group: Any = SimpleNamespace(answers=[b"first" + NO_WAIT, b"second" + NO_WAIT])
    assert told(route(ApiKey.PRODUCE, 8), None, group, MS) is None
    assert group.answers == [b"first" + NO_WAIT, b"second" + WRITTEN]
    group.answers = []
    assert told(route(ApiKey.PRODUCE, 8), None, group, MS) is None
    assert group.answers == []


def test_no_answer_stays_none() -> None:
    assert told(route(ApiKey.PRODUCE, 8), None, None, MS) is None


def test_the_longer_wait_stays() -> None:
    longer = struct.pack(">i", MS + 1)
    answer = b"h" * 8 + longer + b"rest"
    assert told(route(ApiKey.FETCH, 4), answer, None, MS) == answer


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.0, 0),
        (0.0001, 1),
        (0.001, 1),
        (0.0019, 1),
        (1.5, 1500),
        (2147483.647, 2**31 - 1),
        (2147483.9, 2**31 - 1),
    ],
)
def test_a_wait_is_told_in_whole_milliseconds_of_which_a_short_one_has_one(
    seconds: float, expected: int
) -> None:
    assert milliseconds(seconds) == expected


class Changes:
    """What a request has changed, and how long it is to wait for that."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def wait_seconds(self) -> float:
        return self.seconds


@pytest.mark.parametrize("seconds", [0.0, 0.5, 2.0])
def test_who_waits_for_changes_is_counted_once_and_not_read_meanwhile(seconds: float) -> None:
    quotas = Quotas(SimClock().monotonic, 11, 1)
    muted: list[float] = []
    context: Any = SimpleNamespace(broker=SimpleNamespace(quotas=quotas), mute=muted.append)
    spent: Any = Changes(seconds)
    assert throttled(context, spent).total_seconds() == seconds
    waits = [seconds] if seconds else []
    assert muted == waits
    assert quotas.throttled[QuotaKey.MUTATION] == len(waits)
    assert throttled(context, spent).total_seconds() == seconds
    assert quotas.throttled[QuotaKey.MUTATION] == 2 * len(waits)


class Quota:
    """A client's quotas that ask for the waits a test says."""

    def __init__(self, **waits: float) -> None:
        self.waits = waits
        self.calls: list[tuple[str, float]] = []

    def __getattr__(self, name: str) -> Any:
        def counted(amount: float) -> float:
            self.calls.append((name, amount))
            return self.waits.get(name, 0.0)

        return counted


class OneClient:
    """Quotas of a broker where every client has `quota`."""

    def __init__(self, quota: Quota) -> None:
        self.version = 0
        self.throttled = dict.fromkeys(QuotaKey, 0)
        self.quota = quota
        self.asked: list[tuple[str, str]] = []

    def of(self, user: str, client: str) -> Quota:
        self.asked.append((user, client))
        return self.quota


def throttle_with(**waits: float) -> tuple[Any, OneClient, list[float]]:
    quotas = OneClient(Quota(**waits))
    muted: list[float] = []
    connection: Any = SimpleNamespace(mute=muted.append)
    found: Any = quotas
    return Throttle(found, connection, "u"), quotas, muted


def test_the_longest_of_a_requests_waits_is_told_and_each_is_counted() -> None:
    throttle, quotas, muted = throttle_with(produced=2.0, handled=0.5)
    throttle.begin("c", 100)
    assert throttle.end(0.25) == 2000
    assert quotas.quota.calls == [("produced", 100), ("handled", 0.25)]
    assert quotas.throttled[QuotaKey.PRODUCE] == quotas.throttled[QuotaKey.REQUEST] == 1
    assert muted == [2.0, 0.5]
    throttle.begin("c", None)
    assert throttle.end(0.25) == 500, "the wait before was of the request before"
    assert quotas.throttled[QuotaKey.PRODUCE] == 1
    assert quotas.throttled[QuotaKey.REQUEST] == 2


def test_a_fetchs_wait_is_told_by_itself_and_by_its_request() -> None:
    throttle, quotas, muted = throttle_with(fetched=1.5)
    throttle.begin("c", None)
    assert throttle.fetched(10) == 1500
    assert quotas.throttled[QuotaKey.FETCH] == 1
    assert throttle.end(0.0) == 1500
    assert muted == [1.5]
    throttle.not_sent(4)
    assert quotas.quota.calls == [("fetched", 10), ("handled", 0.0), ("not_sent", 4)]


def test_a_clients_quotas_are_looked_up_again_when_it_or_they_change() -> None:
    throttle, quotas, _ = throttle_with()
    for client in ("c", "c", "d", None, ""):
        throttle.begin(client, None)
    assert quotas.asked == [("u", "c"), ("u", "d"), ("u", "")]
    quotas.version += 1
    throttle.begin("", None)
    assert quotas.asked[3:] == [("u", "")]


def test_a_client_without_a_name_is_looked_up_for_its_first_request() -> None:
    throttle, quotas, _ = throttle_with()
    throttle.begin("", None)
    assert quotas.asked == [("u", "")]
    assert throttle.end(0.0) == 0


@pytest.mark.parametrize(("client", "name"), [("c", "c"), (None, "")])
@pytest.mark.parametrize(("version", "strict"), [(4, False), (5, True), (6, True)])
def test_changes_are_counted_for_user_and_client_and_refused_since_a_version(
    client: str | None, name: str, version: int, strict: bool
) -> None:
    quotas: Any = SimpleNamespace(mutations=lambda *who, strict: (*who, strict))
    context: Any = SimpleNamespace(
        broker=SimpleNamespace(quotas=quotas),
        identity=SimpleNamespace(principal=SimpleNamespace(name="u")),
        client_id=client,
        version=version,
    )
    assert mutations(context, 5) == ("u", name, strict)  # type: ignore[comparison-overlap]
