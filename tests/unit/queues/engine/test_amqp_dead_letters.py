"""What a dead letter's headers say, and which way it must not go."""

from collections.abc import Mapping, Sequence

import pytest

from headrace.queues.engine.dead_letters import (
    DeathReason,
    DyingMessage,
    NumberKinds,
    death_headers,
    is_cycle,
    routing_keys_after,
)


class Long(int):
    """Stands for a 64-bit integer of a field table."""


class Timestamp(int):
    """Stands for a timestamp of a field table."""


KINDS = NumberKinds(Long, Timestamp)


def die(
    headers: Mapping[str, object],
    queue: str,
    reason: DeathReason,
    *,
    keys: Sequence[str] = ("key",),
    expiration: str | None = None,
    has_died: bool = False,
    exchange: str = "ex",
    at: int = 1000,
) -> dict[str, object]:
    """The headers of a message after one more death."""
    dying = DyingMessage(exchange, keys, expiration, headers, has_died)
    put = death_headers(dying, queue, reason, wall_seconds=at, kinds=KINDS)
    return {**headers, **put}


def kinds_of(headers: Mapping[str, object]) -> list[tuple[object, object, object]]:
    """Queue, reason and count of each entry of x-death."""
    deaths = headers["x-death"]
    assert isinstance(deaths, list)
    return [(death["queue"], death["reason"], death["count"]) for death in deaths]


def test_the_first_death_tells_all_of_it_in_the_types_of_rabbitmq() -> None:
    put = die({}, "q", DeathReason.EXPIRED, keys=["key", "cc"], expiration="500")
    assert put == {
        "x-death": [
            {
                "count": 1,
                "reason": "expired",
                "queue": "q",
                "time": 1000,
                "exchange": "ex",
                "routing-keys": ["key", "cc"],
                "original-expiration": "500",
            }
        ],
        "x-first-death-reason": "expired",
        "x-first-death-queue": "q",
        "x-first-death-exchange": "ex",
        "x-last-death-reason": "expired",
        "x-last-death-queue": "q",
        "x-last-death-exchange": "ex",
    }
    assert isinstance(put["x-death"], list)
    assert type(put["x-death"][0]["count"]) is Long
    assert type(put["x-death"][0]["time"]) is Timestamp


def test_a_message_without_expiration_had_none() -> None:
    deaths = die({}, "q", DeathReason.REJECTED)["x-death"]
    assert isinstance(deaths, list)
    assert ["original-expiration" in death for death in deaths] == [False]


def test_the_newest_death_is_first_and_the_first_one_stays_the_first() -> None:
    first = die({}, "a", DeathReason.REJECTED)
    second = die(first, "b", DeathReason.EXPIRED, has_died=True, exchange="dlx")
    assert kinds_of(second) == [("b", "expired", 1), ("a", "rejected", 1)]
    assert second["x-first-death-queue"] == "a"
    assert second["x-last-death-queue"] == "b"
    assert second["x-last-death-exchange"] == "dlx"
    assert second["x-last-death-reason"] == "expired"


def test_the_same_death_again_is_counted_and_comes_first_with_the_time_of_its_first() -> None:
    headers = die({}, "a", DeathReason.REJECTED, at=1)
    headers = die(headers, "b", DeathReason.EXPIRED, has_died=True, at=2)
    headers = die(headers, "a", DeathReason.REJECTED, has_died=True, at=3, keys=["other"])
    assert kinds_of(headers) == [("a", "rejected", 2), ("b", "expired", 1)]
    deaths = headers["x-death"]
    assert isinstance(deaths, list)
    assert deaths[0]["time"] == 1
    assert deaths[0]["routing-keys"] == ["key"]
    assert type(deaths[0]["count"]) is Long


def test_the_same_queue_for_another_reason_is_another_death() -> None:
    headers = die({}, "a", DeathReason.REJECTED)
    headers = die(headers, "a", DeathReason.MAXLEN, has_died=True)
    assert kinds_of(headers) == [("a", "maxlen", 1), ("a", "rejected", 1)]


@pytest.mark.parametrize(
    "x_death", ["text", [1], [{"queue": "a", "reason": "rejected", "count": 5}]]
)
def test_what_a_client_wrote_as_x_death_is_no_history(x_death: object) -> None:
    headers = die({"x-death": x_death, "mine": 1}, "a", DeathReason.REJECTED)
    assert kinds_of(headers) == [("a", "rejected", 1)]
    assert headers["mine"] == 1
    assert headers["x-first-death-queue"] == "a"


@pytest.mark.parametrize(("own", "keys"), [(None, ["key", "cc"]), ("dead", ["dead"]), ("", [""])])
def test_the_queues_own_key_takes_the_place_of_all_others(own: str | None, keys: list[str]) -> None:
    assert routing_keys_after(own, ["key", "cc"]) == keys


def entry(queue: str, reason: str) -> dict[str, str]:
    """An entry of x-death."""
    return {"queue": queue, "reason": reason}


@pytest.mark.parametrize(
    ("deaths", "reason", "cycle"),
    [
        ([entry("a", "expired")], DeathReason.EXPIRED, True),
        ([entry("b", "expired"), entry("a", "maxlen")], DeathReason.EXPIRED, True),
        ([entry("b", "expired"), entry("a", "rejected")], DeathReason.EXPIRED, False),
        ([entry("b", "rejected"), entry("a", "expired")], DeathReason.EXPIRED, False),
        ([entry("a", "expired"), entry("b", "rejected")], DeathReason.EXPIRED, True),
        ([entry("b", "delivery_limit")], DeathReason.DELIVERY_LIMIT, False),
        ([entry("a", "expired")], DeathReason.REJECTED, False),
        (None, DeathReason.EXPIRED, False),
    ],
)
def test_a_message_goes_round_only_where_a_client_rejected_it_on_the_way(
    deaths: object, reason: DeathReason, cycle: bool
) -> None:
    assert is_cycle("a", deaths, reason) is cycle
