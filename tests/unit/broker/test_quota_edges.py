"""Quotas to the number: windows, waits, bursts, permits, and whose limit is whose."""

import pytest

from headrace.broker import quotas as module
from headrace.broker.quotas import Bucket, Entity, Mutations, QuotaKey, Quotas, Tokens
from headrace.broker.rates import Rate
from headrace.config.value_types import INT_MAX
from headrace.model.errors import ApiError, ErrorCode


class Time:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def quotas_of(time: Time, limits: dict[Entity, dict[str, float]]) -> Quotas:
    """Quotas over 3 windows of 2 seconds; permits for topics are saved for 10."""
    quotas = Quotas(time, 3, 2, 10)
    for entity, of_entity in limits.items():
        quotas.put(entity, of_entity)
    return quotas


def test_a_rate_is_over_all_windows_but_one_at_least() -> None:
    rate = Rate(3, 1000)
    assert rate.measure(0) == (0.0, 1000.0)
    rate.add(100, 0)
    assert rate.measure(0) == (50.0, 2000.0)
    assert rate.measure(500) == (40.0, 2500.0)
    assert rate.measure(999) == (100_000 / 2999, 2999.0)
    assert rate.measure(1000) == (50.0, 2000.0)
    assert rate.measure(2000) == (50.0, 2000.0)
    assert rate.measure(2999) == (100_000 / 2999, 2999.0)
    assert rate.measure(3000) == (0.0, 1000.0)


def test_a_single_window_is_the_span_where_nothing_has_passed() -> None:
    rate = Rate(1, 1000)
    rate.add(100, 5000)
    assert rate.measure(5000) == (100.0, 1000.0)
    assert rate.measure(5500) == (200.0, 500.0)


def test_no_more_windows_are_kept_than_there_are() -> None:
    rate = Rate(2, 1000)
    for at in (0, 1000, 1999):
        rate.add(100, at)
    assert rate.measure(1999) == (300_000 / 1999, 1999.0)
    rate.add(100, 2000)
    assert rate.measure(2000) == (300.0, 1000.0)


def test_who_is_over_waits_until_its_rate_would_be_back() -> None:
    time = Time()
    bucket = Bucket(100.0, Rate(3, 1000), time)
    idle = [bucket.idle]
    assert bucket.add(200) == 0.0
    idle.append(bucket.idle)
    assert idle == [True, False]
    assert bucket.add(100) == pytest.approx(1.0)  # 150 in a second, of 2 seconds: half as much more
    bucket.take_back(100)
    assert bucket.add(0) == 0.0
    time.seconds += 3
    assert bucket.idle
    narrow = Bucket(1.0, Rate(3, 1000), time)
    assert narrow.add(4) == pytest.approx(2.0)


def test_permits_are_saved_for_the_span_and_no_longer() -> None:
    time = Time()
    tokens = Tokens(10.0, time)
    tokens.bound = 2.0
    assert tokens.left() == 20.0
    tokens.take(15)
    assert tokens.left() == 5.0
    time.seconds += 3
    assert tokens.left() == 11.0
    time.seconds += 4.5
    assert tokens.left() == 20.0
    time.seconds += 1
    assert (tokens.left(), tokens.seconds_short()) == (20.0, 0.0)
    tokens.take(23)
    assert (tokens.left(), tokens.seconds_short()) == (-3.0, 1.5)


def test_a_strict_client_is_refused_only_while_permits_are_short() -> None:
    time = Time()
    quotas = quotas_of(time, {Entity("u"): {"controller_mutation_rate": 1.0}})
    first = quotas.mutations("u", "c", strict=True)
    first.spend(10)
    first.spend(5)  # none left, and none short: this one goes through, and makes them so
    assert first.wait_seconds() == 0.0
    with pytest.raises(ApiError) as refused:
        first.spend(1)
    assert refused.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert first.wait_seconds() == 5.0
    time.seconds += 5
    again = quotas.mutations("u", "other", strict=True)
    again.spend(1)
    assert again.wait_seconds() == 0.0


def test_permits_are_saved_for_eleven_seconds_unless_told_otherwise() -> None:
    quotas = Quotas(Time(), 3, 2)
    quotas.put(Entity("u"), {"controller_mutation_rate": 1.0})
    spending = quotas.mutations("u", "c", strict=False)
    spending.spend(11)
    assert spending.wait_seconds() == 0.0
    spending.spend(1)
    assert spending.wait_seconds() == 1.0


def test_a_client_that_is_not_strict_waits_and_is_refused_nothing() -> None:
    quotas = quotas_of(Time(), {Entity("u"): {"controller_mutation_rate": 1.0}})
    spending = quotas.mutations("u", "c", strict=False)
    spending.spend(10)
    assert spending.wait_seconds() == 0.0
    spending.spend(3)
    spending.spend(0)
    assert spending.wait_seconds() == 3.0
    free = quotas.mutations("else", "c", strict=True)
    free.spend(1000)
    assert free.wait_seconds() == 0.0
    assert Mutations(None, strict=False).wait_seconds() == 0.0


def test_a_fetch_is_as_large_as_the_span_allows_and_one_is_free_after_a_rest() -> None:
    time = Time()
    quotas = quotas_of(time, {Entity("u"): {"consumer_byte_rate": 100.0}})
    mine = quotas.of("u", "c")
    assert mine.fetch_bytes_max(10_000) == 400  # two of three windows of 2 seconds
    assert mine.fetch_bytes_max(300) == 300
    assert mine.fetched(1000) == 0.0
    wait = mine.fetched(100)
    assert wait == pytest.approx((1100 / 4 - 100) / 100 * 4)
    assert mine.fetched(100) == wait  # what was not sent was not counted
    mine.not_sent(700)
    assert mine.fetched(100) == 0.0
    time.seconds += 6
    assert mine.fetched(1000) == 0.0


def test_who_has_no_quota_waits_for_nothing() -> None:
    mine = quotas_of(Time(), {}).of("u", "c")
    assert (mine.produced(1 << 40), mine.fetched(1 << 40), mine.handled(1e9)) == (0.0, 0.0, 0.0)
    assert mine.fetch_bytes_max(1 << 40) == 1 << 40
    mine.not_sent(1)


def test_with_a_single_window_a_fetch_is_as_large_as_that_allows() -> None:
    quotas = Quotas(Time(), 1, 2)
    quotas.put(Entity("u"), {"consumer_byte_rate": 100.0})
    assert quotas.of("u", "c").fetch_bytes_max(10_000) == 200


def test_a_threads_time_is_a_percentage_and_waited_for_a_window_at_most() -> None:
    quotas = quotas_of(Time(), {Entity("u"): {"request_percentage": 50.0}})
    mine = quotas.of("u", "c")
    assert mine.handled(2.0) == 0.0
    assert mine.handled(0.5) == pytest.approx(1.0)
    assert mine.handled(100.0) == 2.0


def test_only_quotas_that_bound_requests_make_them_ask() -> None:
    quotas = quotas_of(Time(), {})
    for key in QuotaKey:
        quotas.put(Entity("u"), {key.value: 1.0})
        assert quotas.active is (key in (QuotaKey.PRODUCE, QuotaKey.FETCH, QuotaKey.REQUEST))
    quotas.put(Entity("u"), {"consumer_byte_rate": 1.0})
    quotas.put(Entity("v"), {"controller_mutation_rate": 1.0})
    assert quotas.active
    quotas.put(Entity("u"), {})
    assert (quotas.active, list(quotas.limits)) == (False, [Entity("v")])


LEVELS = [
    Entity("u", "c"),
    Entity("u", ""),
    Entity("u"),
    Entity("", "c"),
    Entity("", ""),
    Entity(""),
    Entity(client="c"),
    Entity(client=""),
]


@pytest.mark.parametrize("first", range(len(LEVELS)))
def test_the_most_special_quota_counts(first: int) -> None:
    quotas = quotas_of(Time(), {})
    for number, entity in enumerate(LEVELS[first:]):
        quotas.put(entity, {"producer_byte_rate": 10.0 + number})
    bucket = quotas.of("u", "c").produce
    assert bucket is not None
    assert bucket.bound == 10.0


@pytest.mark.parametrize(
    ("entity", "shared_by"),
    [
        (Entity("u", "c"), {"u/c"}),
        (Entity("u", ""), {"u/c"}),
        (Entity("u"), {"u/c", "u/d"}),
        (Entity("", "c"), {"u/c"}),
        (Entity("", ""), {"u/c"}),
        (Entity(""), {"u/c", "u/d"}),
        (Entity(client="c"), {"u/c", "v/c"}),
        (Entity(client=""), {"u/c", "v/c"}),
    ],
)
def test_whose_rate_it_is(entity: Entity, shared_by: set[str]) -> None:
    quotas = quotas_of(Time(), {entity: {"producer_byte_rate": 100.0}})
    assert quotas.of("u", "c").produced(401) > 0
    waiting = {
        f"{user}/{client}"
        for user, client in (("u", "c"), ("u", "d"), ("v", "c"), ("v", "d"))
        if quotas.of(user, client).produced(0) > 0
    }
    assert waiting == shared_by


def test_a_changed_quota_holds_for_what_was_counted_before() -> None:
    quotas = quotas_of(Time(), {Entity("u"): {"producer_byte_rate": 100.0}})
    assert quotas.of("u", "c").produced(400) == 0.0
    quotas.put(Entity("u"), {"producer_byte_rate": 50.0})
    assert quotas.of("u", "c").produced(0) == pytest.approx(4.0)


def test_connections_of_all_addresses_wait_a_window_at_most() -> None:
    quotas = quotas_of(Time(), {})
    assert quotas.connections_rate_max == INT_MAX
    assert quotas.connecting() == 0.0
    quotas.connections_rate_max = 1
    assert [quotas.connecting() for _ in range(6)] == [0.0, 0.0, 0.0, 0.0, 1.0, 2.0]
    assert quotas.connecting() == 2.0
    assert quotas.throttled[QuotaKey.CONNECTIONS] == 3


def test_an_address_has_its_own_bound_or_that_of_all_others() -> None:
    bounds = {
        Entity(ip="0:0::1"): {"connection_creation_rate": 1.0},
        Entity(ip=""): {"connection_creation_rate": 2.0},
        Entity(ip="host"): {"producer_byte_rate": 1.0},
    }
    quotas = quotas_of(Time(), bounds)
    # Of the last two nobody is let in, so neither is counted.
    assert [quotas.connected("::1") for _ in range(6)] == [0.0, 0.0, 0.0, 0.0, 1.0, 1.0]
    assert [quotas.connected("10.0.0.1") for _ in range(9)] == [*[0.0] * 8, 0.5]
    quotas.put(Entity(ip=""), {})
    assert [quotas.connected("10.0.0.2") for _ in range(50)] == [0.0] * 50
    quotas.put(Entity(ip="0:0::1"), {"connection_creation_rate": 0.01})
    assert quotas.connected("::1") == 2.0
    quotas.put(Entity(ip="0:0::1"), {})
    assert quotas.connected("::1") == 0.0


def test_as_many_are_remembered_as_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUCKETS_MAX", 2)
    limits = {"producer_byte_rate": 10.0, "controller_mutation_rate": 1.0}
    quotas = quotas_of(Time(), {Entity("", ""): limits})
    for client in "ab":
        assert quotas.of("u", client).produced(1000) > 0
        quotas.mutations("u", client, strict=False).spend(100)
    assert [quotas.of("u", client).produced(0) > 0 for client in "ab"] == [True, True]
    for client in "ab":
        spending = quotas.mutations("u", client, strict=False)
        spending.spend(0)
        assert spending.wait_seconds() > 0


def test_what_is_taken_back_is_counted_in_the_window_of_its_time() -> None:
    time = Time()
    bucket = Bucket(10.0, Rate(3, 2000), time)
    bucket.add(60)
    time.seconds += 2
    bucket.take_back(60)
    time.seconds += 4.5
    assert bucket.add(60) == 0.0, "what was added is over for longer than what was taken back"
