"""Messages between the home of a channel and the leader of a queue, as field tables.

Own API keys 20005 (calls) and 20006 (events): one session between two registrations of brokers.
The kinds of calls and events, and their fields, are in `remote_queues.encoding`.
"""

from headrace.wire.schema import (
    Field,
    MessageSchema,
    array,
    binary,
    boolean,
    int8,
    int16,
    int32,
    int64,
    struct,
)

_NUMBERED = array(struct(Field("kind", int8), Field("body", binary)))
_SESSION = (
    Field("brokerId", int32),
    Field("brokerEpoch", int64),
    Field("session", int64),
)
"""The home's registration, and the number of its session with this leader."""

QUEUE_CALLS_REQUEST = MessageSchema([*_SESSION, Field("first", int64), Field("calls", _NUMBERED)])
"""Calls from number `first` on; answered when the leader has taken them."""
QUEUE_CALLS_RESPONSE = MessageSchema([Field("errorCode", int16), Field("expected", int64)])
"""`expected`: number of the first call that the leader has not taken."""
QUEUE_EVENTS_REQUEST = MessageSchema(
    [*_SESSION, Field("expected", int64), Field("again", boolean), Field("room", int32)]
)
"""A long poll; the fields are those of `remote_queues.events.Poll`."""
QUEUE_EVENTS_RESPONSE = MessageSchema(
    [Field("errorCode", int16), Field("first", int64), Field("events", _NUMBERED)]
)
"""Events from number `first` on."""
