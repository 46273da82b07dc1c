"""Messages between the home of a channel and the leader of a queue, as field tables.

Own API keys 20005 (calls) and 20006 (events): one session between two registrations of brokers.
The kinds of calls and events, and their fields, are in `remote_queues.encoding`. 20007: requests to
the controller about topics of queues. 20008: alarms of brokers with queues.
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
    string,
    struct,
)

_NUMBERED = array(struct(Field("kind", int8), Field("body", binary)))
_SESSION = (
    Field("brokerId", int32),
    Field("brokerEpoch", int64),
    Field("session", int64),
    Field("leaderEpoch", int64),
)
"""The home's registration, the number of its session with the leader, and that one's registration.

A leader that has restarted has none of the session's calls: it must not take those that are left.
"""

CALLS = (
    MessageSchema([*_SESSION, Field("first", int64), Field("calls", _NUMBERED)]),
    MessageSchema([Field("errorCode", int16), Field("expected", int64)]),
)
"""Calls from number `first` on; answered when the leader has taken those below `expected`."""
EVENTS = (
    MessageSchema(
        [*_SESSION, Field("expected", int64), Field("again", boolean), Field("room", int32)]
    ),
    MessageSchema([Field("errorCode", int16), Field("first", int64), Field("events", _NUMBERED)]),
)
"""A long poll, with the fields of `remote_queues.events.Poll`; events from number `first` on."""

_CONFIG = struct(Field("name", string), Field("value", string))
_CREATED = struct(
    Field("name", string),
    Field("partitions", int32),
    Field("replicas", array(int32)),
    Field("configs", array(_CONFIG)),
)
"""A topic to create; each of its partitions has the same replicas."""
_DELETED = struct(Field("name", string), Field("topicId", string))
"""A topic to delete, and its id in hexadecimal digits; without one it is only looked for."""
_OUTCOME = struct(Field("errorCode", int16), Field("text", string))
TOPICS = (
    MessageSchema(
        [
            Field("brokerId", int32),
            Field("created", array(_CREATED)),
            Field("deleted", array(_DELETED)),
        ]
    ),
    MessageSchema([Field("errorCode", int16), Field("outcomes", array(_OUTCOME))]),
)
"""Topics to create, then topics to delete; one outcome for each, in this order."""

ALARM = (
    MessageSchema(
        [
            Field("brokerId", int32),
            Field("brokerEpoch", int64),
            Field("number", int64),
            Field("low", array(string)),
        ]
    ),
    MessageSchema([Field("errorCode", int16)]),
)
"""The resources that are low on a registration of a broker; a greater number is later."""
