"""What commands print, line by line, against a broker: topics, groups, several at once."""

import json
import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer as ConfluentConsumer

from headrace.cli.main import run as command
from headrace.client.admin.groups import Committed
from headrace.client.consumer.member import Member
from headrace.client.producer.producer import Producer
from headrace.client.sync import connect, run
from headrace.model.nouns import TopicPartition
from headrace.testing import BrokerThread

Says = Callable[..., tuple[int, str, str]]


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    with BrokerThread() as started:
        yield started


@pytest.fixture
def says(broker: BrokerThread, capsys: pytest.CaptureFixture[str]) -> Says:
    """A command's exit code, its answer and its remarks."""

    def ask(*words: str) -> tuple[int, str, str]:
        code = command([*words, "-b", broker.bootstrap])
        said = capsys.readouterr()
        return code, said.out, said.err

    return ask


def send(broker: BrokerThread, topic: str, count: int) -> None:
    """Produce `count` records to partition 0."""
    with connect(broker.bootstrap) as client:
        producer = Producer(client)

        async def story() -> None:
            for number in range(count):
                await producer.send(topic, b"%d" % number, timestamp=1, partition=0)
            await producer.flush()

        run(story())


def test_topics_are_made_described_altered_and_deleted_each_with_its_line(says: Says) -> None:
    assert says("topic", "create", "a", "b", "-p", "2") == (0, "created a\ncreated b\n", "")
    listed = [line.split() for line in says("topic", "list")[1].splitlines()]
    assert listed == [["TOPIC", "PARTITIONS", "REPLICAS"], ["a", "2", "1"], ["b", "2", "1"]]
    code, text, _ = says("topic", "describe", "a", "b")
    first, blank, second = text.partition("\n\n")
    assert (code, bool(blank)) == (0, True)
    assert ("a" in first.splitlines()[0], "b" in second.splitlines()[0]) == (True, True)
    assert says("topic", "alter", "a", "b", "-p", "3", "-c", "retention.ms=7") == (
        0, "altered a\naltered b\n", "",
    )  # fmt: skip
    described = json.loads(says("topic", "describe", "a", "--json")[1])
    assert [len(one["partitions"]) for one in described] == [3]
    assert "retention.ms" in json.dumps(described)
    assert says("topic", "alter", "a", "-d", "retention.ms", "--json") == (
        0, '[{"topic":"a","altered":true,"error":null}]\n', "",
    )  # fmt: skip
    assert "retention.ms" not in says("topic", "describe", "a", "--json")[1]
    assert "retention.ms" in says("topic", "describe", "a", "--json", "--all")[1]
    assert says("topic", "delete", "a", "c", "--if-exists") == (
        0, "deleted a\nthere is no topic c\n", "",
    )  # fmt: skip
    assert says("topic", "rm", "b", "c", "--if-exists", "--json") == (
        0, '[{"topic":"b","deleted":true,"error":null},'
        '{"topic":"c","deleted":false,"error":null}]\n', "",
    )  # fmt: skip


def test_topics_that_are_missing_and_words_that_say_nothing_are_told(says: Says) -> None:
    says("topic", "create", "there")
    for words, code, line in (
        (("describe", "their"), 4, "there is no topic their; did you mean there?"),
        (("delete", "xyz"), 4, "there is no topic xyz; see: headrace topic list"),
        (("describe",), 2, "name at least one topic"),
        (("alter", "there"), 2, "nothing to alter: pass -p, -c key=value or -d key"),
    ):
        assert says("topic", *words) == (code, "", f"headrace: {line}\n"), words


def test_groups_are_described_with_what_is_behind_and_who_reads(
    says: Says, broker: BrokerThread
) -> None:
    says("topic", "create", "t", "-p", "2")
    send(broker, "t", 10)
    with connect(broker.bootstrap) as client:
        member = Member(client, "reads", ["t"], session_seconds=10)
        run(member.join())
        run(member.commit({TopicPartition("t", 0): Committed(4)}))
        assert "t-0 t-1" in says("group", "describe", "reads", "-m")[1]
        code, text, _ = says("group", "describe", "reads")
        assert code == 0
        lines = [line.split() for line in text.splitlines()]
        assert ["t", "0", "4", "10", "6"] in [line[:5] for line in lines]
        assert ["t", "1", "-", "0", "-", member.member_id] in [line[:6] for line in lines]
        assert says("group", "seek", "reads", "--to", "start")[0] == 1, "it has a member"
        run(member.leave())
    said = json.loads(says("group", "describe", "reads", "--json")[1])
    assert [one["group"] for one in said] == ["reads"]
    two = says("group", "describe", "reads", "reads")[1]
    assert two.count("\n\n") >= 1
    half = len(two) // 2
    assert two[:half] + two[half + 1 :] == says("group", "describe", "reads")[1] * 2
    assert says("group", "delete", "reads") == (0, "deleted reads\n", "")
    assert says("group", "delete", "reads")[0] == 4


def test_partitions_of_members_by_the_newer_protocol_are_shown_without_a_commit_too(
    says: Says, broker: BrokerThread
) -> None:
    says("topic", "create", "t", "-p", "2")
    send(broker, "t", 10)
    consumer = ConfluentConsumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "new", "group.protocol": "consumer"}
    )
    try:
        consumer.subscribe(["t"])
        deadline = time.monotonic() + 30
        while len(consumer.assignment()) < 2:
            assert time.monotonic() < deadline
            consumer.poll(0.1)
        lines = [line.split() for line in says("group", "describe", "new")[1].splitlines()]
    finally:
        consumer.close()
    assert [line[:5] for line in lines if line[0] == "t"] == [
        ["t", "0", "-", "10", "-"],
        ["t", "1", "-", "0", "-"],
    ]


def test_a_group_is_moved_within_the_partitions_that_are_named(
    says: Says, broker: BrokerThread
) -> None:
    says("topic", "create", "t", "-p", "2")
    send(broker, "t", 10)
    assert says("group", "seek", "g", "--to", "end")[0] == 4, "there is no such group"
    assert says("group", "seek", "g", "--to", "4", "--topics", "t")[0] == 0
    (moved,) = json.loads(says("group", "describe", "g", "--json")[1])
    assert [one["committed_offset"] for one in moved["partitions"]] == [4, 0]
    assert says("group", "seek", "g", "--to", "end", "--topics", "t:0", "-n")[0] == 0
    assert json.loads(says("group", "describe", "g", "--json")[1]) == [moved]
    assert says("group", "seek", "g", "--to", "end")[0] == 0
    (moved,) = json.loads(says("group", "describe", "g", "--json")[1])
    assert [one["committed_offset"] for one in moved["partitions"]] == [10, 0]
    for topics, line in (
        ("t:2", "--topics t:2: there is no partition 2"),
        ("t:x", "--topics t:x: must be topic or topic:0,1"),
    ):
        said = says("group", "seek", "g", "--to", "end", "--topics", topics)
        assert (said[0], line in said[2]) == (2, True), said


@pytest.mark.parametrize("verb", ["delete", "alter"])
def test_what_coordinators_keep_is_lost_only_by_who_says_force(verb: str, says: Says) -> None:
    says("topic", "create", "t")
    says("group", "seek", "g", "--to", "start", "--topics", "t")
    name = "__consumer_offsets"
    words = ("topic", verb, name, *(("-p", "3") if verb == "alter" else ()))
    code, out, err = says(*words)
    assert (code, out) == (1, "")
    assert err.startswith(f"headrace: {name} is internal: ")
    assert err.endswith("; pass --force to confirm\n")
    assert says("group", "describe", "g")[0] == 0, "nothing is lost"
    assert says("topic", "alter", name, "-c", "segment.bytes=1048576")[0] == 0
    done = {"delete": "deleted", "alter": "altered"}[verb]
    assert says(*words, "--force") == (0, f"{done} {name}\n", "")


def test_a_lag_that_nobody_can_know_is_no_zero(says: Says, broker: BrokerThread) -> None:
    says("topic", "create", "t", "-p", "2")
    send(broker, "t", 10)
    with connect(broker.bootstrap) as client:
        member = Member(client, "g", ["t"])
        run(member.join())
        lines = says("group", "describe", "g")[1].splitlines()
        assert lines[0].endswith(", lag unknown")
        assert [line.split()[2:5] for line in lines[2:]] == [["-", "10", "-"], ["-", "0", "-"]]
        run(member.commit({TopicPartition("t", 0): Committed(4)}))
        lines = says("group", "describe", "g")[1].splitlines()
        assert lines[0].endswith(", lag 6, unknown of 1 partition")
        ((described,),) = [json.loads(says("group", "describe", "g", "--json")[1])]
        assert described["lag"] is None
        assert [row["lag"] for row in described["partitions"]] == [6, None]
        run(member.leave())
