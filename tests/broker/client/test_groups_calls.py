"""Groups through our own client: listed, described, committed, forgotten, field by field."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer as OtherConsumer

from headrace.client.admin import groups
from headrace.client.admin import topics as admin
from headrace.client.admin.groups import Committed, DescribedGroup, ListedGroup
from headrace.client.calls.metadata import Metadata, PartitionMetadata, TopicMetadata
from headrace.client.client import Client
from headrace.client.consumer.member import Member
from headrace.client.sync import connect, run
from headrace.client.transport.port import Address
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.testing import BrokerThread

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    with BrokerThread() as started:
        yield started


@pytest.fixture
def client(broker: BrokerThread) -> Iterator[Client]:
    with connect(broker.bootstrap, client_id="me") as connected:
        run(admin.create_topic(connected, "t", partitions=2))
        yield connected


def test_a_group_is_listed_and_described_with_its_members(client: Client) -> None:
    member = Member(client, "classic", ["t"], instance_id="i", session_seconds=10)
    run(member.join())
    assert run(groups.list_groups(client)) == [
        ListedGroup("classic", "Stable", "consumer", "classic")
    ]
    described = run(groups.describe_group(client, "classic"))
    assert described[:4] == ("classic", "Stable", "consumer", "range")
    (one,) = described.members
    assert one[:3] == (member.member_id, "i", "me")
    assert one.host.strip("/") == "127.0.0.1"
    assert sorted(one.assignment) == [FIRST, SECOND]


def test_a_group_of_the_newer_protocol_is_described_too(
    client: Client, broker: BrokerThread
) -> None:
    other = OtherConsumer(
        {
            "bootstrap.servers": broker.bootstrap, "group.id": "newer",
            "group.protocol": "consumer", "client.id": "other", "group.instance.id": "j",
        }
    )  # fmt: skip
    other.subscribe(["t"])
    described = run(groups.describe_group(client, "newer"))
    for _ in range(200):
        if described.state == "Stable" and described.members and described.members[0].assignment:
            break
        other.poll(0.05)
        described = run(groups.describe_group(client, "newer"))
    assert described[:4] == ("newer", "Stable", "consumer", "uniform")
    (one,) = described.members
    assert one[1:3] == ("j", "other")
    assert one.host.strip("/") == "127.0.0.1"
    assert sorted(one.assignment) == [FIRST, SECOND]
    assert run(groups.list_groups(client))[0].type == "consumer"
    other.close()


def test_offsets_are_left_read_and_forgotten_one_by_one(client: Client) -> None:
    left = {FIRST: Committed(0, 3, "note"), SECOND: Committed(7)}
    run(groups.commit(client, "g", left))
    assert run(groups.committed(client, "g")) == {
        FIRST: Committed(0, 3, "note"), SECOND: Committed(7, -1, ""),
    }  # fmt: skip
    assert list(run(groups.committed(client, "g", [SECOND]))) == [SECOND]
    assert run(groups.committed(client, "g", [])) == {}
    run(groups.commit(client, "g", {}))
    run(groups.delete_offsets(client, "g", [FIRST]))
    assert list(run(groups.committed(client, "g"))) == [SECOND]
    run(groups.delete_group(client, "g"))
    assert run(groups.committed(client, "g")) == {}


def test_refusals_of_groups_are_raised_with_what_was_asked(client: Client) -> None:
    for call, code, words in (
        (groups.delete_group(client, "none"), ErrorCode.GROUP_ID_NOT_FOUND, "group none"),
        (
            groups.delete_offsets(client, "none", [FIRST]),
            ErrorCode.GROUP_ID_NOT_FOUND,
            "group none",
        ),
        (
            groups.commit(client, "g", {FIRST: Committed(1)}, member_id="who", generation=3),
            ErrorCode.GROUP_ID_NOT_FOUND,
            "offset of t-0",
        ),
    ):
        with pytest.raises(ApiError) as refused:
            run(call)
        assert refused.value.code is code
        assert words in str(refused.value)


def test_a_group_nobody_heard_of_is_dead_and_missing_unless_it_left_offsets(
    client: Client,
) -> None:
    dead = run(groups.describe_group(client, "none"))
    assert dead == DescribedGroup("none", "Dead", "", "", ())
    assert not groups.exists(dead, {})
    assert groups.exists(dead, {FIRST: Committed(0)})
    groups.refuse_missing(dead, {FIRST: Committed(0)})
    with pytest.raises(ApiError, match="there is no group none"):
        groups.refuse_missing(dead, {})


def cluster(*leaders: int, topic_error: int = 0) -> Metadata:
    """A cluster with brokers 1 and 2, and topic t led by `leaders`."""
    partitions = [
        PartitionMetadata(number, leader, 0, [1], [1], []) for number, leader in enumerate(leaders)
    ]
    topic = TopicMetadata("t", bytes(16), False, partitions, topic_error)
    return Metadata("c", 1, {1: Address("h", 1), 2: Address("h", 2)}, {}, {"t": topic})


@pytest.mark.parametrize(
    ("known", "topic", "code", "words"),
    [
        (cluster(1), "u", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no topic u"),
        (cluster(1, -1), "t", ErrorCode.LEADER_NOT_AVAILABLE, "t-1 has no leader"),
        (cluster(3), "t", ErrorCode.LEADER_NOT_AVAILABLE, "t-0 has no leader"),
        (cluster(), "t", ErrorCode.LEADER_NOT_AVAILABLE, "topic t has no partitions yet"),
        (cluster(1, topic_error=29), "t", ErrorCode.TOPIC_AUTHORIZATION_FAILED, "topic t"),
    ],
)
def test_a_topic_that_cannot_be_used_is_told_with_what_it_lacks(
    known: Metadata, topic: str, code: ErrorCode, words: str
) -> None:
    with pytest.raises(ApiError) as told:
        known.check(topic)
    assert told.value.code is code
    assert words in str(told.value)


def test_who_leads_a_partition_is_known_or_why_nobody_does() -> None:
    known = cluster(1, 2, 3)
    assert [known.leader("t", number) for number in (0, 1)] == [1, 2]
    for topic, number, code in (
        ("t", 2, ErrorCode.LEADER_NOT_AVAILABLE),
        ("t", 3, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("u", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ):
        with pytest.raises(ApiError) as told:
            known.leader(topic, number)
        assert told.value.code is code
        assert f"{topic}-{number}" in str(told.value)
