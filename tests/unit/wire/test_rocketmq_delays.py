"""When a message is due by its properties, and the handle that recalls it."""

import pytest

from headrace.model.errors import Malformed
from headrace.wire.rocketmq.delays import (
    LEVEL_SECONDS,
    RecallHandle,
    asks_for_delay,
    decode_recall_handle,
    encode_recall_handle,
    later_delivery,
)
from headrace.wire.rocketmq.properties import find_property, with_property, without_property
from headrace.wire.rocketmq.sent_messages import MessageIllegal

NOW_MS = 1_795_861_093_630
THREE_DAYS_MS = 259_200_000


def due(properties: bytes) -> int | None:
    """Return after how many ms a message is due, None for at once."""
    found = later_delivery(properties, NOW_MS, THREE_DAYS_MS)
    return None if found is None else found.due_ms - NOW_MS


@pytest.mark.parametrize("level", range(1, 19))
def test_each_level_has_its_delay(level: int) -> None:
    assert due(b"DELAY\x01%d\x02" % level) == LEVEL_SECONDS[level - 1] * 1000


def test_levels_are_those_of_the_original() -> None:
    text = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    units = {"s": 1, "m": 60, "h": 3600}
    assert [int(word[:-1]) * units[word[-1]] for word in text.split()] == list(LEVEL_SECONDS)


def test_a_level_above_18_counts_as_18_and_is_stored_so() -> None:
    found = later_delivery(b"a\x011\x02DELAY\x0199\x02b\x012", NOW_MS, THREE_DAYS_MS)
    assert found is not None
    assert found.due_ms == NOW_MS + 7_200_000
    assert found.properties == b"a\x011\x02b\x012\x02DELAY\x0118\x02"
    assert not found.is_timer


@pytest.mark.parametrize(
    ("properties", "after_ms"),
    [
        (b"TIMER_DELAY_MS\x013000\x02", 3000),
        (b"TIMER_DELAY_SEC\x013\x02", 3000),
        (b"TIMER_DELIVER_MS\x01%d" % (NOW_MS + 1), 1),
        (b"TIMER_DELAY_MS\x011\x02TIMER_DELAY_SEC\x012\x02", 2000),
        (b"TIMER_DELIVER_MS\x01%d\x02TIMER_DELAY_MS\x015\x02" % (NOW_MS + 1), 5),
        (b"TIMER_DELAY_MS\x013000\x02DELAY\x011\x02", 1000),
        (b"TIMER_DELAY_MS\x013000\x02DELAY\x010\x02", 3000),
        (b"TIMER_DELAY_MS\x01259200000\x02", THREE_DAYS_MS),
        (b"TIMER_DELIVER_MS\x01%d\x02" % NOW_MS, None),
        (b"TIMER_DELIVER_MS\x01%d\x02" % (NOW_MS - 5000), None),
        (b"TIMER_DELAY_MS\x01-1\x02", None),
        (b"DELAY\x01-1\x02", None),
        (b"TIMER_DELAY_MS\x013000\x02TIMER_OUT_MS\x0117\x02", None),
        (b"KEYS\x01DELAY\x02", None),
        (b"", None),
    ],
)
def test_times_are_read_in_the_order_of_the_original(
    properties: bytes, after_ms: int | None
) -> None:
    assert due(properties) == after_ms


def test_a_time_adds_the_property_of_when_it_is_due() -> None:
    found = later_delivery(b"TIMER_DELAY_MS\x017\x02", NOW_MS, THREE_DAYS_MS)
    assert found is not None
    assert found.is_timer
    assert found.properties == b"TIMER_DELAY_MS\x017\x02TIMER_OUT_MS\x01%d\x02" % (NOW_MS + 7)


@pytest.mark.parametrize(
    "properties",
    [
        b"TIMER_DELAY_MS\x01259200001\x02",
        b"TIMER_DELAY_SEC\x012592000\x02",
        b"TIMER_DELIVER_MS\x01%d\x02" % (NOW_MS + THREE_DAYS_MS + 1),
        b"TIMER_DELAY_MS\x01soon\x02",
        b"TIMER_DELIVER_MS\x01\x02",
        b"DELAY\x01x\x02",
        b"DELAY\x01" + b"9" * 400 + b"\x02",
    ],
)
def test_too_late_times_and_texts_are_refused(properties: bytes) -> None:
    with pytest.raises(MessageIllegal):
        due(properties)


def test_asks_for_delay_sees_each_property() -> None:
    for name in (b"DELAY", b"TIMER_DELAY_MS", b"TIMER_DELAY_SEC", b"TIMER_DELIVER_MS"):
        assert asks_for_delay(b"a\x01b\x02" + name + b"\x011\x02")
    assert not asks_for_delay(b"a\x01DELAY\x02")


def test_a_property_is_replaced_behind_the_others() -> None:
    assert with_property(b"a\x011\x02b\x012\x02c\x013", b"b", b"x") == (
        b"a\x011\x02c\x013\x02b\x01x\x02"
    )
    assert with_property(b"", b"a", b"1") == b"a\x011\x02"
    assert without_property(b"b\x011\x02ab\x012\x02b\x013\x02", b"b") == b"ab\x012\x02"
    assert find_property(with_property(b"a\x011\x02a\x012", b"a", b"3"), b"a") == b"3"


def test_a_recall_handle_is_the_text_of_the_original() -> None:
    recorded = (
        "djEgU2NqYXZhNTVqc29uX2RlbGF5IGJyb2tlci1hIDE3OTU4NjEwOTYwMDEgN0YwMDAwMDExRUJDNEUwRTJGMkE4"
        "RDQxQjRGRTAwMkY="
    )
    handle = decode_recall_handle(recorded)
    assert handle == RecallHandle(
        "Scjava55json_delay", "broker-a", 1795861096001, "7F0000011EBC4E0E2F2A8D41B4FE002F"
    )
    assert encode_recall_handle(handle) == recorded
    spaced = handle._replace(unique_key="a key of one's own")
    assert decode_recall_handle(encode_recall_handle(spaced)) == spaced


@pytest.mark.parametrize("text", ["", "bm9wZQ==", "djIgYSBiIDEgYw==", "djEgYSBiIHggYw==", "ä", "d"])
def test_a_text_that_is_no_recall_handle_is_malformed(text: str) -> None:
    with pytest.raises(Malformed):
        decode_recall_handle(text)
