"""Commands that change a vhost's declarations, their answers, and polls of the log.

They cross between brokers as the fields of `wire.kafka.declaration_messages`. Methods cross as AMQP
encodes them. Texts of refusals may have names that are not UTF-8.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from headrace.cluster.peers.peer_call import Fields
from headrace.model.errors import ApiError, ErrorCode, Malformed
from headrace.model.nouns import BrokerId, Offset
from headrace.queues.model.declarations import QueueCounts
from headrace.queues.model.policies.vhost_policy import PolicyId, policy_of, policy_text
from headrace.queues.refusals import RefusalKind, Refused
from headrace.security.identity import Identity, Principal
from headrace.vhosts.policies.commands import PolicyChange
from headrace.wire.amqp.frames import FRAME_HEADER_BYTES
from headrace.wire.amqp.methods import Method, decode_method, encode_method
from headrace.wire.amqp.model_methods import QueueDelete


class CommandKind(IntEnum):
    """The kinds of changes of a vhost's declarations."""

    METHOD = 0
    """A client's or an administrator's declaring method."""
    CONNECTION_CLOSED = 1
    """A connection is closed, whose exclusive queues are deleted."""
    QUEUE_ENDED = 2
    """A queue has expired, or its last consumer is gone: the queue of the method is deleted."""
    VHOST_DELETED = 3
    """All declarations of the vhost are deleted, before its definition is."""
    QUEUE_REPLICAS = 4
    """An operator plans other replicas for the durable queue of the method."""
    POLICIES = 5
    """Policies are set or cleared. All brokers know it that have the feature POLICY_RECORDS."""


class Command(NamedTuple):
    """A change of a vhost's declarations."""

    vhost: str
    kind: CommandKind
    broker: BrokerId
    """The broker of the client."""
    epoch: int
    """The epoch of that broker's registration."""
    connection: int = 0
    """The number of the connection on that broker; 0: an administrator, who has none."""
    method: Method | None = None
    identity: Identity | None = None
    """The client, who needs permissions; None: the broker itself or an administrator."""
    name_bytes: bytes = bytes(16)
    """16 random bytes, for the name of a queue that is left to the server. They are the command's,
    so that a command that is repeated gives the same name."""
    counts: QueueCounts = QueueCounts()
    """Messages and consumers of the queue to be deleted, as its leader has counted them."""
    replicas: tuple[int, ...] = ()
    """The replicas to plan, the first leader in front."""
    policies: tuple[PolicyChange, ...] = ()
    """The policies to set or clear, all of them or none."""

    @property
    def adds(self) -> bool:
        """Whether the command may add declarations, not only delete or alter them."""
        if self.kind is CommandKind.POLICIES:
            return any(each.policy is not None for each in self.policies)
        return self.kind is CommandKind.METHOD and not isinstance(self.method, QueueDelete)


class Result(NamedTuple):
    """The answer to a command that was carried out."""

    offset: Offset
    """All changes that the answer depends on are below this offset of the vhost's partition."""
    name: str = ""
    """The name of a declared queue."""
    created: bool = False
    """Whether the declared object is new."""
    messages: int = 0
    """The number of messages of a deleted queue."""


Answer = Result | Refused
"""Refused: the command changes nothing."""


class Wanted(NamedTuple):
    """A partition that a poll is about, and the offset below which the follower has applied all."""

    partition: int
    offset: Offset


class Poll(NamedTuple):
    """A follower's question to a broker about the partitions that it leads."""

    wanted: Sequence[Wanted]
    waits: bool
    """Whether the answer may wait for records; not if a table is not loaded yet."""


class Part(NamedTuple):
    """A partition's part of the answer to a poll."""

    partition: int
    error: ErrorCode = ErrorCode.NONE
    committed: Offset = Offset(0)
    """The offset below which all records are committed."""
    content: bytes = b""
    """Whole batches from the one with the polled offset on, perhaps from before it."""
    next_offset: Offset = Offset(0)
    """The offset to poll from next."""


# Fields


def command_fields(command: Command) -> Fields:
    """Return a command as the fields of its message, but for the broker."""
    identity = command.identity
    method = command.method
    return {
        "vhost": command.vhost,
        "kind": int(command.kind),
        "epoch": command.epoch,
        "connection": command.connection,
        "method": b"" if method is None else encode_method(0, method)[FRAME_HEADER_BYTES:-1],
        "host": None if identity is None else identity.host,
        "listener": "" if identity is None else identity.listener,
        "principal": "" if identity is None else str(identity.principal),
        "tags": [] if identity is None else sorted(identity.tags),
        "nameBytes": command.name_bytes,
        "ready": command.counts.ready,
        "consumers": command.counts.consumers,
        "replicas": command.replicas,
        "policies": [
            {
                "name": each.id.name,
                "operators": each.id.operators,
                "value": None if each.policy is None else policy_text(each.policy).encode(),
            }
            for each in command.policies
        ],
    }


def command_of(fields: Fields, broker: BrokerId) -> Command:
    """Return the command of these fields. Raises Malformed."""
    identity = None
    if fields["host"] is not None:
        kind, _, name = fields["principal"].partition(":")
        principal = Principal(kind, name)
        tags = frozenset(fields["tags"])
        identity = Identity(fields["host"], fields["listener"], principal, tags)
    try:
        kind_of_command = CommandKind(fields["kind"])
    except ValueError as error:
        raise Malformed("a command of a later version") from error
    return Command(
        fields["vhost"],
        kind_of_command,
        broker,
        fields["epoch"],
        fields["connection"],
        decode_method(fields["method"]) if fields["method"] else None,
        identity,
        fields["nameBytes"],
        QueueCounts(fields["ready"], fields["consumers"]),
        tuple(fields["replicas"]),
        tuple(map(_policy_change, fields.get("policies", ()))),
    )


def _policy_change(fields: Fields) -> PolicyChange:
    name, value = fields["name"], fields["value"]
    policy = None if value is None else policy_of(name, value.decode())
    return PolicyChange(PolicyId(name, fields["operators"]), policy)


def answer_fields(answer: Answer | ApiError) -> Fields:
    """Return the answer to a command, or its error, as the fields of a message."""
    error, text, kind, resource = ErrorCode.NONE, "", "", ""
    result = Result(Offset(0))
    match answer:
        case Result():
            result = answer
        case Refused():
            text, kind, resource = str(answer), answer.kind.value, answer.resource
        case ApiError():
            error, text = answer.code, answer.message or ""
    return {
        "errorCode": error,
        "text": text.encode("utf-8", "surrogateescape"),
        "refusal": kind,
        "resource": resource,
        "offset": result.offset,
        "name": result.name.encode("utf-8", "surrogateescape"),
        "created": result.created,
        "count": result.messages,
    }


def answer_of(fields: Fields) -> Answer | ApiError:
    """Return the answer of these fields."""
    text = fields["text"].decode("utf-8", "surrogateescape")
    if fields["errorCode"]:
        return ApiError(ErrorCode(fields["errorCode"]), text or None)
    if fields["refusal"]:
        return Refused(RefusalKind(fields["refusal"]), fields["resource"], text)
    name = fields["name"].decode("utf-8", "surrogateescape")
    return Result(Offset(fields["offset"]), name, fields["created"], fields["count"])


def part_fields(part: Part) -> Fields:
    """Return a partition's part of a poll's answer as the fields of a message."""
    return {
        "partitionIndex": part.partition,
        "errorCode": part.error,
        "committed": part.committed,
        "content": part.content,
        "nextOffset": part.next_offset,
    }


def parts_of(parts: Sequence[Fields]) -> list[Part]:
    """Return the parts of a poll's answer."""
    return [
        Part(
            fields["partitionIndex"],
            ErrorCode(fields["errorCode"]),
            Offset(fields["committed"]),
            fields["content"],
            Offset(fields["nextOffset"]),
        )
        for fields in parts
    ]
