"""Messages about declarations between brokers, as field tables: own API keys 20001 and 20002.

A command changes a vhost's declarations and goes to the leader of its partition of the log
(`vhosts.declarations.messages.Command`); by polls each broker follows the log.
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
    nullable_binary,
    nullable_string,
    string,
    struct,
)

_POLICY = struct(
    Field("name", string), Field("operators", boolean), Field("value", nullable_binary)
)
"""`value`: the policy as JSON; null: it is cleared."""
_COMMAND = struct(
    Field("vhost", string),
    Field("kind", int8),
    Field("epoch", int64),
    Field("connection", int64),
    Field("method", binary),
    Field("host", nullable_string),
    Field("listener", string),
    Field("principal", string),
    Field("tags", array(string)),
    Field("nameBytes", binary),
    Field("ready", int64),
    Field("consumers", int64),
    Field("replicas", array(int32)),
    Field("policies", array(_POLICY), since=1),
)
"""`epoch`: of the broker's registration when the client connected. `host`: null for commands of
administrators and of the broker itself."""
_ANSWER = struct(
    Field("errorCode", int16),
    Field("text", binary),
    Field("refusal", string),
    Field("resource", string),
    Field("offset", int64),
    Field("name", binary),
    Field("created", boolean),
    Field("count", int64),
)
"""Either an error, or a refusal by kind and resource, or the offset that has the changes."""
COMMANDS = (
    MessageSchema([Field("brokerId", int32), Field("commands", array(_COMMAND))], 1),
    MessageSchema([Field("errorCode", int16), Field("answers", array(_ANSWER))], 1),
)
"""Commands of one broker's clients; the answers are in the order of the commands."""

_POLLED = struct(Field("partitionIndex", int32), Field("offset", int64))
_PART = struct(
    Field("partitionIndex", int32),
    Field("errorCode", int16),
    Field("committed", int64),
    Field("content", binary),
    Field("nextOffset", int64),
)
POLLS = (
    MessageSchema(
        [Field("brokerId", int32), Field("partitions", array(_POLLED)), Field("waits", boolean)]
    ),
    MessageSchema([Field("errorCode", int16), Field("partitions", array(_PART))]),
)
"""A long poll from the offsets below which the broker has applied all; committed batches."""
