"""Request x role of a RocketMQ listener: the answer of each cell, and the requests to play.

The rows are the permissions that `test_remoting_permissions` plays one by one, and those of further
requests. A code with a handler and without a row fails `test_remoting_permission_table`.
"""

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import NamedTuple

from headrace.frontends.rocketmq.dispatch import HANDLERS
from headrace.security.acl import ANY_NAME
from headrace.security.authorizer import CLUSTER_NAME, Operation, Resource, ResourceType
from headrace.wire.rocketmq.batch_bodies import BatchedMessage, encode_batch
from headrace.wire.rocketmq.codes import RequestCode, ResponseCode
from tests.broker.frontends.rocketmq.test_remoting_permissions import (
    READ_GROUP,
    READ_TOPIC,
    REPLY,
    REPLY_TOPIC,
    REQUESTS,
    SEND,
    TOPIC,
    Asked,
    Right,
)

WRITE_TOPIC = (Operation.WRITE, TOPIC)
PLACED = "offset"
"""The field with a message's physical offset, which a test fills in."""
_WORDS = {
    "producerGroup": "PG", "topic": "t", "defaultTopic": "TBW102", "defaultTopicQueueNums": 4,
    "queueId": 0, "sysFlag": 0, "bornTimestamp": 5, "flag": 0, "properties": "",
}  # fmt: skip
_WRITE_REPLIES = (Operation.WRITE, Resource(ResourceType.TOPIC, REPLY_TOPIC))
_BATCH = encode_batch([BatchedMessage(0, b"x", b"")])
MORE = [
    Asked(RequestCode.SEND_MESSAGE, _WORDS, b"x", (WRITE_TOPIC,)),
    Asked(RequestCode.SEND_BATCH_MESSAGE, SEND, _BATCH, (WRITE_TOPIC,)),
    Asked(
        RequestCode.SEND_REPLY_MESSAGE,
        _WORDS | {"topic": REPLY_TOPIC, "properties": REPLY["i"]}, b"x", (_WRITE_REPLIES,),
    ),
    Asked(RequestCode.VIEW_MESSAGE_BY_ID, {PLACED: 0}, b"", (READ_TOPIC,)),
    Asked(
        RequestCode.CONSUMER_SEND_MSG_BACK, {PLACED: 0, "group": "CG", "delayLevel": -1}, b"",
        (READ_TOPIC, READ_GROUP),
    ),
]  # fmt: skip
"""Requests that `REQUESTS` does not have, because they need no test of each permission."""
BY_ANOTHER_TEST = {
    RequestCode.END_TRANSACTION: "WRITE TOPIC (test_remoting_permissions)",
}
"""Requests that change what the next one needs."""
LISTED = {RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER}
"""Answered to everybody with what the client may describe."""
FREE = {
    RequestCode.GET_BROKER_CLUSTER_INFO,
    RequestCode.DELETE_TOPIC_IN_NAMESRV,
    RequestCode.UNREGISTER_CLIENT,
    RequestCode.CHECK_CLIENT_CONFIG,
}
"""Answered to every user: they tell and change nothing of others."""
ANYTHING = [
    (Operation.ALL, Resource(ResourceType.TOPIC, ANY_NAME)),
    (Operation.ALL, Resource(ResourceType.GROUP, ANY_NAME)),
    (Operation.ALL, Resource(ResourceType.CLUSTER, CLUSTER_NAME)),
]


def with_cluster(right: Right) -> tuple[Right, ...]:
    """Return a right, and that to the cluster where it suffices instead, as in Kafka."""
    operation, _ = right
    if operation not in (Operation.CREATE, Operation.DELETE):
        return (right,)
    return right, (operation, Resource(ResourceType.CLUSTER, CLUSTER_NAME))


class Player(Enum):
    """A role: what its client may do."""

    NOBODY = "nobody"
    """Its requests have no signature where one is wanted."""
    UNRULED = "no rules"
    RULED = "rules"
    DENIED = "denied"
    SUPER = "super user"

    @property
    def user(self) -> str:
        """The client's access key."""
        return self.name.lower()


class Row(NamedTuple):
    """A request, and the permission without which it is refused."""

    asked: Asked
    missing: Right

    def __str__(self) -> str:
        operation, resource = self.missing
        return f"{self.asked.code.name}: {operation.name} {resource.kind.name}"


def rows() -> Iterator[Row]:
    """Return all rows, by code."""
    for asked in sorted((*REQUESTS, *MORE), key=lambda asked: asked.code):
        for missing in asked.needs:
            yield Row(asked, missing)


def expected(row: Row, player: Player) -> ResponseCode | None:
    """Return the code of a refusal; None: the request is served."""
    if player in (Player.RULED, Player.SUPER):
        return None
    return ResponseCode.NO_PERMISSION if player is Player.NOBODY else row.asked.refused


def uncovered() -> set[int]:
    """Return the codes with a handler that have no row and no reason."""
    covered = {row.asked.code for row in rows()} | LISTED | FREE | BY_ANOTHER_TEST.keys()
    return set(HANDLERS) - covered


def fields_of(asked: Asked, physical_offset: int) -> Mapping[str, object]:
    """Return a request's fields, with a message's place where they name one."""
    if PLACED not in asked.fields:
        return asked.fields
    return {**asked.fields, PLACED: physical_offset}


def print_remoting_table() -> str:
    """Return the table as Markdown: one row a permission, one column a role."""
    names = {None: "yes", ResponseCode.NO_PERMISSION: "16", ResponseCode.TOPIC_NOT_EXIST: "17"}
    lines = [
        "| request and the permission |" + "".join(f" {player.value} |" for player in Player),
        "|---|" + "---|" * len(Player),
    ]
    for row in dict.fromkeys(str(row) for row in rows()):
        first = next(each for each in rows() if str(each) == row)
        cells = [names[expected(first, player)] for player in Player]
        lines.append(f"| {row} | {' | '.join(cells)} |")
    for code, why in BY_ANOTHER_TEST.items():
        lines.append(f"| {code.name}: {why} | 16 | 16 | yes | 16 | yes |")
    lines += [
        f"| {code.name}: DESCRIBE TOPIC | 16 |" + " left out | yes | left out | yes |"
        for code in sorted(LISTED)
    ]
    lines += [f"| {code.name}: asks nothing | 16 |" + " yes |" * 4 for code in sorted(FREE)]
    return "\n".join(lines) + "\n"
