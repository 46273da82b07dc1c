"""Every request code of a RocketMQ listener and every role: each cell is played."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from headrace.security.acl import AclBinding, AclEntry, AclFilter, Permission
from headrace.testing import BrokerThread
from headrace.wire.rocketmq.codes import RequestCode, ResponseCode
from headrace.wire.rocketmq.message_ids import physical_offset_of
from tests.broker.frontends.rocketmq.test_remoting_permissions import NARROWED, REPLY_TOPIC, Right
from tests.support.rocketmq.client import RemotingClient
from tests.support.rocketmq.kit import SETTINGS, code, fields, port_of
from tests.support.rocketmq.signing_client import SigningClient
from tests.support.security.remoting_table import (
    ANYTHING,
    FREE,
    LISTED,
    Player,
    Row,
    expected,
    fields_of,
    print_remoting_table,
    rows,
    uncovered,
    with_cluster,
)

README = Path(__file__).parent / "README.md"
SECRET = "a-secret-of-all"
USERS = [player.user for player in Player if player is not Player.NOBODY]


class House(NamedTuple):
    """A broker on which ACLs and access keys decide, and a message in its topic t."""

    broker: BrokerThread
    physical_offset: int

    def client(self, player: Player) -> RemotingClient:
        """Return the client of a role."""
        port = port_of(self.broker)
        if player is Player.NOBODY:
            return RemotingClient(port)
        return SigningClient(port, player.user, SECRET)

    def rule(self, row: Row) -> None:
        """Give each role its rights for a row: all of them, or all but the row's own."""
        allowed = Permission.ALLOW
        bindings = [
            *self._bindings(Player.RULED, allowed, row.asked.needs),
            *self._bindings(Player.DENIED, allowed, ANYTHING),
            *self._bindings(Player.DENIED, Permission.DENY, with_cluster(row.missing)),
            *self._bindings(Player.SUPER, Permission.DENY, ANYTHING),
        ]

        async def put(server: object) -> None:
            acls = self.broker.server.controller.settings.acls
            await acls.remove([AclFilter()])
            assert await acls.add(bindings) == [None] * len(bindings)

        self.broker.run(put)

    def _bindings(
        self, player: Player, permission: Permission, rights: "tuple[Right, ...] | list[Right]"
    ) -> Iterator[AclBinding]:
        for operation, resource in rights:
            entry = AclEntry(f"User:{player.user}", "*", operation, permission)
            yield AclBinding(resource, entry)


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    settings = SETTINGS | {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "rocketmq.access.keys": ",".join(f"{user}:{SECRET}" for user in USERS),
        "rocketmq.recall.message.enable": "true",
        "super.users": f"User:{Player.SUPER.user}",
    }
    with BrokerThread(settings) as broker:
        broker.create_topics("t", "narrow", "gone", REPLY_TOPIC)
        with SigningClient(port_of(broker), Player.SUPER.user, SECRET) as client:
            sent = client.send("t", i="UNIQ_KEY\x01u\x02")
            assert code(sent) is ResponseCode.SUCCESS, sent.remark
        yield House(broker, physical_offset_of(fields(sent)["msgId"]))


def test_every_request_code_is_in_the_table() -> None:
    assert not uncovered()


def test_the_printed_table_is_the_one_that_is_played() -> None:
    assert print_remoting_table() in README.read_text(), "python -m tests.security.write_table"


@pytest.mark.parametrize("row", list(rows()), ids=str)
def test_each_role_is_answered_as_the_table_says(house: House, row: Row) -> None:
    house.rule(row)
    with house.client(Player.SUPER) as client:  # so that a row may change its settings again
        client.call(RequestCode.UPDATE_AND_CREATE_TOPIC, {**NARROWED, "perm": 6})
    asked = row.asked
    for player in sorted(Player, key=lambda player: expected(row, player) is None):
        with house.client(player) as client:
            answer = client.call(asked.code, fields_of(asked, house.physical_offset), asked.body)
        wanted = expected(row, player)
        if wanted is not None:
            assert code(answer) is wanted, (player, answer.remark)
        else:
            refusals = (ResponseCode.NO_PERMISSION, ResponseCode.TOPIC_NOT_EXIST)
            assert code(answer) not in refusals, (player, answer.remark)
            if row.missing[1].name in ("gone", "new"):
                house.broker.create_topics("gone")
                house.broker.delete_topics("new")


def test_requests_that_ask_nothing_are_answered_to_each_user(house: House) -> None:
    body = b'{"subscriptionData":{"topic":"t"}}'
    for number in (*FREE, *LISTED):
        for player in Player:
            with house.client(player) as client:
                answer = client.call(number, {"topic": "none"}, body)
            refused = code(answer) is ResponseCode.NO_PERMISSION
            assert refused is (player is Player.NOBODY), (number, player)
