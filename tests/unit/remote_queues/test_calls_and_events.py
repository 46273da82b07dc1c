"""Numbers, bounds and repetition of a session's calls and events, and their encoding."""

from typing import Any, get_args

import pytest

from headrace.model.errors import Malformed
from headrace.queue_stores.queue_settings import ConsumerSettings, StreamOffset, StreamStart
from headrace.queues.port import Disposition, QueueInfo
from headrace.queues.refusals import RefusalKind, Refused
from headrace.remote_queues.calls import REQUEST_BYTES_MAX, REQUESTS_MAX, CallsIn, CallsOut
from headrace.remote_queues.encoding import call_of, encoded, event_of
from headrace.remote_queues.events import EVENTS_BYTES_MAX, EventsIn, EventsOut, Poll
from headrace.remote_queues.messages import (
    Attached,
    Begun,
    Call,
    Cancel,
    Cancelled,
    Chosen,
    CloseIfEmpty,
    Consume,
    Consuming,
    Copied,
    Counted,
    Credit,
    Delivered,
    Event,
    Get,
    GotMessage,
    Hold,
    Info,
    Leave,
    Moved,
    Open,
    Opened,
    Publish,
    Purge,
    PurgeEnded,
    Recall,
    Recalled,
    Reopen,
    Reply,
    Room,
    Settle,
    Stored,
    size_of,
)
from headrace.wire.amqp.content import Message
from headrace.wire.amqp.properties import Properties, make_header
from headrace.wire.schema import Field, binary, int32, int64, record

REFUSED = Refused(RefusalKind.LOCKED, "queue", "locked 'ö'")
WISHES = ConsumerSettings(5, StreamOffset(StreamStart.OFFSET, 7), frozenset({"a", ""}))


def message(body: bytes = b"body", **properties: Any) -> Message:
    return Message("ex", "key", make_header(len(body), Properties(**properties)), body)


def numbered(count: int) -> tuple[CallsOut, list[Call]]:
    """Calls of a home that has added `count` of them."""
    out = CallsOut()
    calls: list[Call] = [Info(1, number) for number in range(count)]
    for call in calls:
        out.add(call)
    return out, calls


def test_requests_in_flight_are_bounded_and_an_answer_allows_the_next() -> None:
    out, _ = numbered(0)
    for number in range(REQUESTS_MAX + 1):
        out.add(Info(1, number))
        assert (out.take() is not None) == (number < REQUESTS_MAX)
    out.answered(1)
    assert out.take() == (REQUESTS_MAX, [Info(1, REQUESTS_MAX)])


def test_request_ends_beyond_its_bytes() -> None:
    out = CallsOut()
    large = Publish(1, 1, False, [message(bytes(REQUEST_BYTES_MAX))])
    for call in (large, Info(1, 1), Info(1, 2)):
        out.add(call)
    assert out.take() == (0, [large])
    assert out.take() == (1, [Info(1, 1), Info(1, 2)])
    out.answered(3)
    assert (out.idle, out.size) == (True, 0)


def test_unanswered_calls_are_sent_again_after_a_lost_connection() -> None:
    out, calls = numbered(3)
    assert out.take() == (0, calls)
    out.answered(1)
    out.lost()
    assert out.take() == (1, calls[1:])
    assert not out.may_grow(2)
    assert out.last_growing() is None
    number = out.add(Purge(1, 9))
    assert out.may_grow(number)
    assert out.last_growing() == (number, Purge(1, 9))


def test_calls_that_the_leader_did_not_take_are_sent_again() -> None:
    out, calls = numbered(2)
    out.take()
    out.answered(0)
    assert out.take() == (0, calls)


def test_leader_skips_repeated_calls_and_takes_none_after_a_gap() -> None:
    taken = CallsIn()
    _, calls = numbered(4)
    assert taken.take(0, calls[:2]) == calls[:2]
    assert taken.take(0, calls[:3]) == calls[2:3]
    assert list(taken.take(4, calls)) == []
    assert taken.expected == 3


def test_growing_calls_are_counted_until_they_are_answered() -> None:
    out = CallsOut()
    call = Publish(1, 1, False, [message()])
    number = out.add(call)
    call.messages.append(message(b"second"))
    out.grow(number, size_of(call) - out.size)
    assert out.size == size_of(call)
    out.take()
    out.answered(1)
    assert out.size == 0


def test_events_are_sent_once_unless_they_are_asked_for_again() -> None:
    out, taken = EventsOut(), EventsIn()
    events: list[Event] = [Stored(1, number, ()) for number in range(3)]
    for event in events:
        out.add(event)
    assert out.take(0) == (0, events[:1])
    assert out.take(1000) == (1, events[1:])
    assert not out.unsent
    out.rewind()
    assert out.take(1000) == (0, events)
    assert taken.take(1, events[1:]) == ()  # an answer was lost
    assert taken.poll(9) == Poll(0, True, 9)
    assert taken.take(0, events[:2]) == events[:2]
    assert taken.take(0, events) == events[2:]
    assert taken.poll(9) == Poll(3, False, 9)
    out.received(3)
    assert out.size == 0
    taken.lost()
    assert taken.poll(9).again


def test_events_are_full_until_the_home_has_received_them() -> None:
    out = EventsOut()
    out.add(Delivered(1, 2, (0,), (message(bytes(EVENTS_BYTES_MAX)),), False, None))
    assert out.is_full
    out.take(1)
    assert out.is_full
    out.received(1)
    assert not out.is_full


CALLS: list[Call] = [
    Open(1, "/", "q"),
    Publish(1, 4, True, [message(), message(b"", expiration="100", priority=3)], round=2),
    Hold(1, 2, [3, 5]),
    Consume(1, 2, "täg", True, False, 10, WISHES, 10, True),
    Consume(1, 2, "", False, True, 0, ConsumerSettings(), 0, False),
    Cancel(1, 2, 3),
    Credit(1, 2, 1 << 40),
    Recall(1, 2),
    Settle(1, 2, Disposition.REQUEUED, [0, 1 << 50]),
    Settle(1, 2, Disposition.ACKNOWLEDGED, [3], 7),
    Attached(1),
    Get(1, 2, 3, True),
    Purge(1, 2),
    Info(1, 2),
    Reply(1, 2, True, [message()]),
    CloseIfEmpty(1, 2),
    Reopen(1),
    Leave(1),
]
EVENTS: list[Event] = [
    Opened(1, 900),
    Moved(1),
    Room(1, 4, 2),
    Copied(1, [3, 4]),
    Recalled(1, 2, 5),
    Begun(1, 2, 7),
    Delivered(1, 2, [5, 7], [message(), message(b"x")], True, [0, 2]),
    Delivered(1, 2, [5], [message()], False, None),
    Stored(1, 4, [4, 6]),
    Stored(1, 4, []),
    Consuming(1, 2, None),
    Cancelled(1, 2, None),
    Chosen(1, 2, True),
    GotMessage(1, 2, 5, [message()], True, 3, 9, None),
    GotMessage(1, 2, 0, [], False, 0, 0, None),
    PurgeEnded(1, 2, 5, None),
    Counted(1, 2, QueueInfo(1, 2, 3, 4)),
]


def fields(found: Call | Event) -> tuple[Any, ...]:
    """Return the kind and the fields; messages as tuples, as they compare by identity."""
    plain = [
        [(each.exchange, each.routing_key, each.header, each.body) for each in value]
        if name in {"message", "messages"}
        else value
        for name, value in found._asdict().items()
        if name != "batch"
    ]
    return (type(found), *plain)


@pytest.mark.parametrize("call", CALLS)
def test_calls_are_decoded_as_they_were_encoded(call: Call) -> None:
    assert fields(call_of(encoded(call))) == fields(call)


@pytest.mark.parametrize("event", EVENTS)
def test_events_are_decoded_as_they_were_encoded(event: Event) -> None:
    assert fields(event_of(encoded(event))) == fields(event)


def test_each_kind_of_call_and_event_is_encoded_here() -> None:
    assert {type(call) for call in CALLS} == set(get_args(Call))
    assert {type(event) for event in EVENTS} == set(get_args(Event))


@pytest.mark.parametrize("kind", [Consuming, Cancelled])
def test_refusals_keep_their_kind_and_text(kind: type[Any]) -> None:
    found = event_of(encoded(kind(1, 2, REFUSED)))
    assert isinstance(found, kind)
    refused = found.refused
    assert (refused.kind, refused.resource, str(refused)) == (
        REFUSED.kind,
        REFUSED.resource,
        str(REFUSED),
    )


def test_invalid_kinds_and_values_are_malformed() -> None:
    settle = encoded(Settle(1, 2, Disposition.REQUEUED, [1]))
    for kind in (-1, len(get_args(Call))):
        with pytest.raises(Malformed):
            call_of({**settle, "kind": kind})
    with pytest.raises(Malformed):
        call_of({**settle, "body": settle["body"].replace(b"requeued", b"nonsense")})
    schema = record(Field("queue", int32), Field("first", int64), Field("unstored", binary))
    body = schema.encode({"queue": 1, "first": 4, "unstored": b"7 bytes"}, 0)
    with pytest.raises(Malformed):
        event_of({**encoded(Stored(1, 4, [1])), "body": body})
