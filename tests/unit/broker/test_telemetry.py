"""Client metrics by the clock: whose turn it is, what is too long, and what is forgotten when."""

import pytest

from headrace.broker import telemetry as module
from headrace.broker.telemetry import SERIES_SECONDS_MAX, TEXT_MAX, Client, Subscription, Telemetry
from headrace.config.entity_settings import EntityConfigs
from headrace.config.keys.entities import CLIENT_METRICS
from headrace.model.errors import ApiError, ErrorCode
from headrace.testing.clock import SimClock, SimRandom
from headrace.wire.otlp import Point

CLIENT = Client("c-1", "librdkafka", "2.16.1", "10.1.2.3", 4711)
ID = bytes(15) + b"\x07"


class Kept:
    """Telemetry with one subscription of everything each second."""

    def __init__(self, series_max: int = 3) -> None:
        self.clock = SimClock()
        self.configs = EntityConfigs(CLIENT_METRICS)
        self.telemetry = Telemetry(self.configs, self.clock, SimRandom(), 100, series_max)
        self.configs.put("all", {"metrics": "*", "interval.ms": "1000"})

    def get(self, instance: bytes | None = ID) -> Subscription:
        return self.telemetry.subscribe(instance, CLIENT)

    def push(self, instance: bytes | None = ID, **fields: int) -> None:
        values = {"subscription_id": 0, "codec": 0, "size": 0, **fields}
        values.setdefault("terminating", False)
        if instance is not None and "subscription_id" not in fields:
            known = self.telemetry._instances.get(instance)
            values["subscription_id"] = known.subscription.subscription_id if known else 0
        self.telemetry.check_push(instance, CLIENT, **values)  # type: ignore[arg-type]

    def refusal(self, instance: bytes | None = ID, **fields: int) -> ErrorCode:
        with pytest.raises(ApiError) as refused:
            self.push(instance, **fields)
        return refused.value.code


def point(metric: str, value: float = 1.0, *, added: bool = False, **named: str) -> Point:
    return Point(metric, tuple(named.items()), value, added)


def test_a_client_is_heard_when_just_its_interval_is_over() -> None:
    kept = Kept()
    kept.get()
    kept.push()
    kept.clock.advance(0.999)
    assert kept.refusal() is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    with pytest.raises(ApiError, match="asked again before"):
        kept.get()
    kept.clock.advance(0.001)
    kept.push()


def test_who_asked_may_ask_again_after_the_interval_and_push_at_once() -> None:
    kept = Kept()
    kept.get()
    with pytest.raises(ApiError, match="asked again before"):
        kept.get()
    kept.clock.advance(1)
    kept.get()
    kept.push()
    assert kept.refusal() is ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_who_never_asked_may_push_and_is_told_to_ask_for_the_present_subscription() -> None:
    kept = Kept()
    assert kept.refusal(subscription_id=7) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    kept.get()


def test_only_what_asking_anew_mends_lets_a_client_ask_at_once() -> None:
    kept = Kept()
    subscription = kept.get()
    assert kept.refusal(size=101) is ErrorCode.TELEMETRY_TOO_LARGE
    with pytest.raises(ApiError, match="asked again before"):
        kept.get()
    kept.clock.advance(1)
    assert kept.refusal(codec=9) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert kept.get() == subscription
    with pytest.raises(ApiError, match="asked again before"):
        kept.get()


def test_a_push_of_just_the_bytes_allowed_is_taken() -> None:
    kept = Kept()
    kept.get()
    kept.push(size=100)


@pytest.mark.parametrize("instance", [None, bytes(16), bytes(15) + b"\x01"])
def test_a_push_without_a_clients_id_is_refused(instance: bytes | None) -> None:
    assert Kept().refusal(instance) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("instance", [None, bytes(16)])
def test_who_asks_without_an_id_is_given_one(instance: bytes | None) -> None:
    kept = Kept()
    given = kept.get(instance).instance
    assert given not in (bytes(16), b"", None)
    assert kept.get(instance).instance != given
    assert kept.get(ID).instance == ID


def test_the_last_push_may_come_early_and_nothing_comes_after_it() -> None:
    kept = Kept()
    kept.get()
    kept.push()
    kept.push(terminating=True)
    kept.clock.advance(1)
    assert kept.refusal() is ErrorCode.INVALID_REQUEST


def test_who_has_pushed_for_the_last_time_has_done_so_whatever_is_asked_for_now() -> None:
    kept = Kept()
    kept.get()
    kept.push(terminating=True)
    kept.configs.put("all", {"metrics": "a.", "interval.ms": "1000"})
    assert kept.refusal() is ErrorCode.INVALID_REQUEST


def test_a_client_is_asked_anew_after_a_change_and_may_ask_at_once() -> None:
    kept = Kept()
    before = kept.get()
    kept.configs.put("all", {"metrics": "a.", "interval.ms": "1000"})
    after = kept.get()
    assert after.metrics == ("a.",)
    assert after.subscription_id != before.subscription_id
    with pytest.raises(ApiError, match="asked again before"):
        kept.get()


def test_the_longest_unheard_client_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INSTANCES_MAX", 2)
    kept = Kept()
    first, second, third = (bytes(15) + bytes([number]) for number in (5, 6, 7))
    kept.get(first)
    kept.get(second)
    kept.push(first)
    kept.get(third)
    kept.get(second)  # is unknown: may ask
    with pytest.raises(ApiError, match="asked again before"):
        kept.get(third)
    with pytest.raises(ApiError, match="asked again before"):
        kept.get(second)


def test_subscription_numbers_are_signed_numbers_of_32_bits() -> None:
    kept = Kept()
    numbers = [
        kept.telemetry.subscribe(number.to_bytes(16, "big"), CLIENT).subscription_id
        for number in range(2, 66)
    ]
    assert all(-(1 << 31) <= number < 1 << 31 for number in numbers)
    assert min(numbers) < 0 < max(numbers)
    assert len(set(numbers)) == 64


def test_the_shortest_interval_and_all_metrics_of_what_matches_are_asked_for() -> None:
    kept = Kept()
    kept.configs.put("all", {})
    assert kept.get().interval_ms == 300_000
    kept.configs.put("b", {"metrics": "b.,a.", "interval.ms": "2000"})
    kept.configs.put("a", {"metrics": "a.", "interval.ms": "3000"})
    kept.configs.put("other", {"metrics": "x.", "interval.ms": "100", "match": "client_id=d"})
    found = kept.get()
    assert (found.metrics, found.interval_ms) == (("a.", "b."), 2000)


def test_a_subscription_that_cannot_be_read_asks_nobody() -> None:
    kept = Kept()
    kept.configs.texts["all"] = {"metrics": "*", "match": "client_id=[", "interval.ms": "1000"}
    kept.configs.texts["odd"] = {"no.such.key": "1"}
    found = kept.get()
    assert (found.metrics, found.interval_ms) == ((), 300_000)


@pytest.mark.parametrize(
    "match",
    [
        "client_instance_id=AAAAAAAAAAAAAAAAAAAABw",
        "client_id=c-1",
        "client_software_name=librdkafka",
        "client_software_version=2[.]16[.]1",
        "client_source_address=10[.]1[.]2[.]3",
        "client_source_port=4711",
    ],
)
def test_a_client_is_matched_by_each_thing_that_is_known_of_it(match: str) -> None:
    kept = Kept()
    kept.configs.put("all", {"metrics": "*", "match": match})
    assert kept.get().metrics == ("*",)
    kept.configs.put("all", {"metrics": "*", "match": match + "x"})
    assert kept.get().metrics == ()


def test_a_client_id_is_looked_at_by_patterns_up_to_its_longest() -> None:
    kept = Kept()
    kept.configs.put("all", {"metrics": "*", "match": "client_id=x+"})
    at_most = CLIENT._replace(client_id="x" * 200)
    longer = CLIENT._replace(client_id="x" * 201)
    assert kept.telemetry.subscribe(ID, at_most).metrics == ("*",)
    assert kept.telemetry.subscribe(bytes(15) + b"\x08", longer).metrics == ()


def test_names_attributes_and_client_ids_are_cut_at_their_longest() -> None:
    kept = Kept()
    assert TEXT_MAX == 200
    client = CLIENT._replace(client_id="c" * 201)
    kept.telemetry.take(client, [point("m" * 201, node="n" * 200)])
    assert list(kept.telemetry.series()) == [("m" * 200, "c" * 200, "node=" + "n" * 195)]


def test_numbers_are_added_up_or_replaced_as_they_say() -> None:
    kept = Kept()
    points = [point("sum", 2.0, added=True), point("gauge", 2.0), point("gauge", 5.0, a="b", c="d")]
    for _ in range(2):
        kept.telemetry.take(CLIENT, points)
    assert kept.telemetry.series() == {
        ("sum", "c-1", ""): 4.0,
        ("gauge", "c-1", ""): 2.0,
        ("gauge", "c-1", "a=b,c=d"): 5.0,
    }
    assert kept.telemetry.dropped == 0


def test_a_series_is_shown_for_an_hour_after_it_was_last_told() -> None:
    kept = Kept()
    kept.telemetry.take(CLIENT, [point("a"), point("b")])
    kept.clock.advance(SERIES_SECONDS_MAX - 1)
    kept.telemetry.take(CLIENT, [point("b")])
    assert len(kept.telemetry.series()) == 2
    kept.clock.advance(1)
    assert list(kept.telemetry.series()) == [("b", "c-1", "")]


def test_a_series_is_let_go_for_a_new_one_only_when_it_is_an_hour_old() -> None:
    kept = Kept(series_max=2)
    kept.telemetry.take(CLIENT, [point("a")])
    kept.clock.advance(1)
    kept.telemetry.take(CLIENT, [point("b")])
    kept.clock.advance(3598)
    kept.telemetry.take(CLIENT, [point("c")])
    assert kept.telemetry.dropped == 1
    kept.clock.advance(1)  # "a" was told an hour ago
    kept.telemetry.take(CLIENT, [point("c"), point("d"), point("b", 3.0)])
    assert kept.telemetry.dropped == 2
    assert kept.telemetry.series() == {("b", "c-1", ""): 3.0, ("c", "c-1", ""): 1.0}


def test_nothing_is_kept_where_nothing_may_be() -> None:
    kept = Kept(series_max=0)
    kept.telemetry.take(CLIENT, [point("a")])
    assert kept.telemetry.dropped == 1
    assert kept.telemetry.series() == {}
