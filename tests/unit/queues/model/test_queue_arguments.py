"""Arguments of queues and consumers: what each may be, and RabbitMQ's texts where it is not."""

import pytest

from headrace.queue_stores.queue_settings import (
    DELIVERIES_COUNTED_MAX,
    ConsumerSettings,
    Overflow,
    QueueSettings,
    QueueType,
    StreamOffset,
    StreamStart,
)
from headrace.queues.model.arguments import consumer_settings, queue_settings, queue_type_of
from headrace.queues.refusals import Refused
from tests.support.queues.virtual_hosts import refusal

QUEUE = "queue 'q' in vhost '/'"
LONGSTR = '"expected integer, got longstr"'


class Timestamp(int):
    """Named as the wire's type is."""


class Long(int):
    """Named as the wire's type is."""


def problem(name: str, value: object, **others: object) -> str:
    arguments = {name: value, **{f"x-{key.replace('_', '-')}": of for key, of in others.items()}}
    with pytest.raises(Refused) as refused:
        queue_settings(arguments, QUEUE)
    text = refusal(refused)
    told = f"PRECONDITION_FAILED - invalid arg '{name}' for {QUEUE}"
    assert text.startswith(told)
    return text.removeprefix(told)


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("x-message-ttl", -1, "{value_negative,-1}"),
        ("x-message-ttl", 315_360_000_001, "{value_too_large,315360000001}"),
        ("x-message-ttl", "a", LONGSTR),
        ("x-message-ttl", True, '"expected integer, got bool"'),
        ("x-message-ttl", None, '"expected integer, got void"'),
        ("x-message-ttl", [1], '"expected integer, got array"'),
        ("x-message-ttl", {"a": 1}, '"expected integer, got table"'),
        ("x-message-ttl", 1.0, '"expected integer, got double"'),
        ("x-message-ttl", Timestamp(5), '"expected integer, got timestamp"'),
        ("x-expires", 0, "{value_zero,0}"),
        ("x-expires", -1, "{value_negative,-1}"),
        ("x-expires", 315_360_000_001, "{value_too_large,315360000001}"),
        ("x-max-length", -1, "{value_negative,-1}"),
        ("x-max-length", "1", LONGSTR),
        ("x-max-length-bytes", -5, "{value_negative,-5}"),
        ("x-max-priority", 256, "{max_value_exceeded,256}"),
        ("x-max-priority", -1, "{value_negative,-1}"),
        ("x-overflow", "foo", "invalid_overflow"),
        ("x-overflow", 5, "{unacceptable_type,signedint}"),
        ("x-dead-letter-routing-key", "k", "routing_key_but_no_dlx_defined"),
        ("x-dead-letter-routing-key", 5, "{unacceptable_type,signedint}"),
        ("x-single-active-consumer", 1, "{unacceptable_type,signedint}"),
        ("x-queue-mode", "foo", "\"unsupported queue mode 'foo'\""),
        ("x-queue-version", 3, "\"unsupported queue version '3'\""),
        ("x-queue-version", -1, "{value_negative,-1}"),
        ("x-queue-type", 5, "{unacceptable_type,signedint}"),
        ("x-queue-type", "CLASSIC", "\"unsupported queue type 'CLASSIC'\""),
        ("x-queue-leader-locator", "foo", "invalid_queue_locator_arg"),
        ("x-queue-leader-locator", Long(1 << 40), "{unacceptable_type,long}"),
        ("x-headrace-retention", "7", '"expected an age such as 7D or 12h"'),
        ("x-headrace-retention", "0s", '"expected an age such as 7D or 12h"'),
        ("x-headrace-retention", 7, "{unacceptable_type,signedint}"),
        ("x-headrace-retention-bytes", 0, "{value_zero,0}"),
        ("x-headrace-retention-bytes", -1, "{value_negative,-1}"),
        ("x-headrace-retention-bytes", "1", LONGSTR),
    ],
)
def test_a_wrong_value_is_refused_in_rabbitmqs_words(name: str, value: object, told: str) -> None:
    assert problem(name, value) == f": {told}"


@pytest.mark.parametrize(
    ("queue_type", "name", "value"),
    [
        ("classic", "x-max-age", "1D"),
        ("classic", "x-delivery-limit", 5),
        ("classic", "x-quorum-initial-group-size", 3),
        ("quorum", "x-max-priority", 5),
        ("quorum", "x-queue-mode", "lazy"),
        ("quorum", "x-queue-master-locator", "min-masters"),
        ("quorum", "x-max-age", "foo"),
        ("stream", "x-message-ttl", 5),
        ("stream", "x-max-length", 5),
        ("stream", "x-dead-letter-exchange", "a"),
        ("stream", "x-single-active-consumer", True),
    ],
)
def test_what_a_type_does_not_take_is_refused(queue_type: str, name: str, value: object) -> None:
    told = problem(name, value, queue_type=queue_type)
    assert told == f" of queue type rabbit_{queue_type}_queue"


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("x-headrace-retention", "x-max-age"),
        ("x-headrace-retention-bytes", "x-max-length-bytes"),
    ],
)
def test_a_stream_is_told_what_says_how_long_it_keeps_its_messages(name: str, instead: str) -> None:
    told = problem(name, "7D", queue_type="stream")
    assert told == f" of queue type rabbit_stream_queue: it is '{instead}' there"


@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
def test_how_long_a_queue_keeps_what_is_settled_is_an_age_or_bytes_or_both(
    queue_type: str,
) -> None:
    def kept(**arguments: object) -> tuple[int | None, int | None, bool]:
        names = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
        found = queue_settings({"x-queue-type": queue_type, **names}, QUEUE)
        return found.retention_ms, found.retention_bytes, found.keeps_settled

    assert kept() == (None, None, False)
    assert kept(headrace_retention="7D") == (604_800_000, None, True)
    assert kept(headrace_retention="12h") == (43_200_000, None, True)
    assert kept(headrace_retention_bytes=1) == (None, 1, True)
    assert kept(headrace_retention="1s", headrace_retention_bytes=5) == (1000, 5, True)
    assert kept(max_length_bytes=9) == (None, None, False)


def test_a_stream_keeps_nothing_settled_however_long_it_keeps_its_messages() -> None:
    stream: dict[str, object] = {"x-queue-type": "stream", "x-max-age": "7D"}
    assert not queue_settings({**stream, "x-max-length-bytes": 9}, QUEUE).keeps_settled


def test_the_edges_of_ranges_are_taken() -> None:
    settings = queue_settings(
        {
            "x-message-ttl": 0,
            "x-expires": 315_360_000_000,
            "x-max-length": 0,
            "x-max-priority": 255,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "k",
            "x-overflow": "reject-publish-dlx",
            "x-single-active-consumer": True,
            "x-queue-mode": "lazy",
            "x-unknown": object,
        },
        QUEUE,
    )
    assert settings == QueueSettings(
        ttl_ms=0,
        expires_ms=315_360_000_000,
        length_max=0,
        overflow=Overflow.REJECT_PUBLISH_DLX,
        dead_letter_exchange="",
        dead_letter_routing_key="k",
        priority_max=255,
        single_active_consumer=True,
    )


def test_a_quorum_queue_delivers_twenty_times_unless_told_otherwise() -> None:
    quorum: dict[str, object] = {"x-queue-type": "quorum"}
    assert queue_settings(quorum, QUEUE).delivery_limit == 20
    assert queue_settings({**quorum, "x-delivery-limit": 3}, QUEUE).delivery_limit == 3
    assert queue_settings({**quorum, "x-delivery-limit": "a"}, QUEUE).delivery_limit == 20
    # Without a bound they are counted all the same.
    without_bound = queue_settings({**quorum, "x-delivery-limit": -1}, QUEUE).delivery_limit
    assert without_bound == DELIVERIES_COUNTED_MAX
    assert queue_settings({}, QUEUE).delivery_limit is None
    assert queue_settings({}, QUEUE).delivery_limit is None


def test_a_quorum_queue_dead_letters_at_least_once_where_it_rejects_what_is_too_much() -> None:
    asked: dict[str, object] = {
        "x-queue-type": "quorum",
        "x-dead-letter-strategy": "at-least-once",
    }
    assert not queue_settings(asked, QUEUE).dead_letter_at_least_once
    rejecting = queue_settings({**asked, "x-overflow": "reject-publish"}, QUEUE)
    assert rejecting.dead_letter_at_least_once
    dropping = queue_settings({**asked, "x-overflow": "reject-publish-dlx"}, QUEUE)
    assert dropping.overflow is Overflow.DROP_HEAD


def test_a_consumer_timeout_of_nothing_is_for_ever_and_of_another_kind_the_brokers() -> None:
    assert queue_settings({"x-consumer-timeout": 0}, QUEUE).consumer_timeout_ms == 0
    assert queue_settings({"x-consumer-timeout": 5}, QUEUE).consumer_timeout_ms == 5
    assert queue_settings({"x-consumer-timeout": "a"}, QUEUE).consumer_timeout_ms is None


def test_a_stream_has_bounds_of_its_own() -> None:
    stream: dict[str, object] = {"x-queue-type": "stream"}
    assert queue_settings({**stream, "x-max-age": "7D"}, QUEUE).retention_ms == 604_800_000
    assert problem("x-max-age", "foo", queue_type="stream") == ": invalid_max_age"
    assert problem("x-max-age", "0s", queue_type="stream") == ": invalid_max_age"
    assert problem("x-initial-cluster-size", 0, queue_type="stream") == ": {value_zero,0}"
    segment = "x-stream-max-segment-size-bytes"
    most = queue_settings({**stream, segment: 3_000_000_000}, QUEUE)
    assert most.segment_bytes_max == 3_000_000_000
    for name, value, told in (
        (segment, 3_000_000_001, "Exceeded max value for x-stream-max-segment-size-bytes"),
        ("x-stream-filter-size-bytes", 15, "Invalid value for  x-stream-filter-size-bytes"),
        ("x-stream-filter-size-bytes", 256, "Invalid value for  x-stream-filter-size-bytes"),
    ):
        with pytest.raises(Refused, match=told):
            queue_settings({**stream, name: value}, QUEUE)


def test_a_type_that_is_not_set_is_classic() -> None:
    assert queue_type_of({}) is QueueType.CLASSIC
    assert queue_settings({"x-queue-type": "undefined"}, QUEUE).queue_type is QueueType.CLASSIC


def test_a_consumer_has_a_priority_or_a_place_in_a_stream() -> None:
    assert consumer_settings({}, QueueType.CLASSIC, QUEUE) == ConsumerSettings()
    assert consumer_settings({"x-priority": -5}, QueueType.QUORUM, QUEUE).priority == -5
    for queue_type, name, value, told in (
        (QueueType.CLASSIC, "x-priority", "a", f": {LONGSTR}"),
        (QueueType.CLASSIC, "x-stream-offset", 5, " of queue type rabbit_classic_queue"),
        (QueueType.STREAM, "x-priority", 1, " of queue type rabbit_stream_queue"),
        (
            QueueType.STREAM,
            "x-stream-offset",
            "5X",
            ': {invalid_stream_offset_arg,{longstr,<<"5X">>}}',
        ),
        (QueueType.STREAM, "x-stream-offset", True, ": {invalid_stream_offset_arg,{bool,true}}"),
    ):
        with pytest.raises(Refused) as refused:
            consumer_settings({name: value}, queue_type, QUEUE)
        assert refusal(refused) == f"PRECONDITION_FAILED - invalid arg '{name}' for {QUEUE}{told}"


def test_a_stream_is_read_from_where_a_consumer_says() -> None:
    def offset(value: object) -> StreamOffset:
        arguments = {"x-stream-offset": value}
        return consumer_settings(arguments, QueueType.STREAM, QUEUE).stream_offset

    assert consumer_settings({}, QueueType.STREAM, QUEUE).stream_offset.start is StreamStart.NEXT
    assert offset("first") == (StreamStart.FIRST, 0)
    assert offset("last") == (StreamStart.LAST, 0)
    assert offset(7) == (StreamStart.OFFSET, 7)
    assert offset(-1) == (StreamStart.OFFSET, 0)
    assert offset(Timestamp(5)) == (StreamStart.TIMESTAMP, 5_000)
    assert offset("2h") == (StreamStart.AGE, 7_200_000)
