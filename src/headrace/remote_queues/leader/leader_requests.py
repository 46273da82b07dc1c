"""Requests of homes to a leader's sessions, with fields as `wire.kafka.queue_messages` has them."""

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId
from headrace.ports.callbacks import Done
from headrace.remote_queues.encoding import call_of, encoded
from headrace.remote_queues.events import Poll
from headrace.remote_queues.leader.queue_sessions import QueueSessions, SessionName
from headrace.remote_queues.messages import Event, QueueCalls

Fields = Mapping[str, Any]
Answered = Done[dict[str, Any] | ApiError]
"""Takes the fields of the response; FETCH_SESSION_ID_NOT_FOUND: the session has ended."""


def take_calls(sessions: QueueSessions, request: Fields, done: Answered) -> None:
    """Carry out calls, then call `done` with the number of the next one; raise Malformed."""
    calls = QueueCalls(request["first"], [call_of(call) for call in request["calls"]])

    def taken(expected: int | None) -> None:
        if expected is None:
            done(_ended())
        else:
            done({"errorCode": ErrorCode.NONE, "expected": expected})

    sessions.take(_home(request), _session(request), calls, taken)


def poll_events(sessions: QueueSessions, request: Fields, done: Answered) -> None:
    """Call `done` with the next events, once there are some."""
    poll = Poll(request["expected"], request["again"], request["room"])

    def polled(found: tuple[int, Sequence[Event]] | None) -> None:
        if found is None:
            done(_ended())
            return
        first, events = found
        encoded_events = [encoded(event) for event in events]
        done({"errorCode": ErrorCode.NONE, "first": first, "events": encoded_events})

    sessions.poll(_home(request), _session(request), poll, polled)


def _home(request: Fields) -> BrokerId:
    return BrokerId(request["brokerId"])


def _session(request: Fields) -> SessionName:
    return SessionName(request["brokerEpoch"], request["session"])


def _ended() -> ApiError:
    return ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
