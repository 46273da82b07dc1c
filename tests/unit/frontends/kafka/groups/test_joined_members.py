"""Who joined is shown by the name and address he came with."""

from datetime import timedelta
from typing import Any

from headrace.frontends.kafka.groups import describe_groups, join_group
from tests.support.coordination.groups_wire import Wire
from tests.support.net.served import served

V3 = 3
"""The last version in which a member joins at once, without being given an id first."""


def test_a_member_is_described_by_its_clients_id_and_host() -> None:
    wire = Wire()
    protocol = wire.nested(
        served(join_group), V3, "JoinGroupRequestProtocol", name="range", metadata=b"m"
    )
    values: dict[str, Any] = {
        "group_id": "g",
        "session_timeout": timedelta(seconds=10),
        "rebalance_timeout": timedelta(seconds=20),
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": (protocol,),
    }
    joined = wire.ask(served(join_group), V3, **values)
    (group,) = wire.ask(
        served(describe_groups), 5, groups=("g",), include_authorized_operations=False
    ).groups
    (member,) = group.members
    assert member.member_id == joined.member_id
    assert (member.client_id, member.client_host) == ("client", "/127.0.0.1")
