"""`headrace rocketmq`: where groups begin and why, and offsets in RocketMQ's own files."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.cli.main import run as command
from headrace.testing import BrokerThread
from headrace.wire.rocketmq.codes import ResponseCode
from headrace.wire.rocketmq.fastjson import decode_body
from tests.support.processes.cli_kit import SCHEMAS, check
from tests.support.rocketmq.client import RemotingClient, messages_in
from tests.support.rocketmq.kit import SETTINGS, cleanable, code, fields, made, port_of

Run = Callable[..., tuple[int, Any]]


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Iterator[BrokerThread]:
    """A broker for RocketMQ; a parameter is its rule for new groups."""
    rule = getattr(request, "param", "5")
    with BrokerThread(SETTINGS | {"rocketmq.zero.offset.rule": rule}) as started:
        yield started


@pytest.fixture
def client(broker: BrokerThread) -> Iterator[RemotingClient]:
    """A client of RocketMQ's."""
    with RemotingClient(port_of(broker)) as connected:
        yield connected


@pytest.fixture
def run(broker: BrokerThread, capfd: pytest.CaptureFixture[str]) -> Run:
    """The exit code and the JSON of a command; an error's text if there is no JSON."""

    def ask(*words: object) -> tuple[int, Any]:
        given = [str(word) for word in words]
        status = command([*given, "--json", "-b", broker.bootstrap])
        said = capfd.readouterr()
        if not said.out:
            return status, said.err
        answer = json.loads(said.out)
        name = "-".join(word for word in given[:3] if word in NAMES)
        check(json.loads((SCHEMAS / f"{name}.json").read_text()), answer)
        return status, answer

    return ask


NAMES = (
    "rocketmq", "offsets", "topics", "groups", "export", "import", "where-would-a-group-begin",
)  # fmt: skip


def where(run: Run, topic: str, *more: object) -> list[dict[str, Any]]:
    """Return the rows of where-would-a-group-begin."""
    status, rows = run("rocketmq", "where-would-a-group-begin", topic, *more)
    assert status == 0, rows
    assert isinstance(rows, list)
    return rows


def commit(client: RemotingClient, topic: str, offset: int, queue: int = 0) -> None:
    """Store an offset of group CG."""
    named = {"consumerGroup": "CG", "topic": topic, "queueId": queue, "commitOffset": offset}
    assert code(client.call(15, named)) is ResponseCode.SUCCESS


def answered(client: RemotingClient, topic: str, group: str, queue: int = 0) -> int:
    """Return what the broker answers to the query of an offset, -1 for not found."""
    answer = client.call(14, {"consumerGroup": group, "topic": topic, "queueId": queue})
    return int(fields(answer)["offset"]) if code(answer) is ResponseCode.SUCCESS else -1


@pytest.mark.parametrize("broker", ["5", "4.9", "new-queue", "off"], indirect=True)
def test_the_explained_beginning_is_the_answer_to_the_client(
    broker: BrokerThread, client: RemotingClient, run: Run
) -> None:
    made(client, "t", 2)
    for number in range(3):
        client.send("t", b"%d" % number)
    first, _, third = messages_in(client.pull("t"))
    commit(client, "t", 1)
    made(client, "t", 3)
    client.send("t", e=2)
    for group in ("CG", "new"):
        rows = where(run, "t", "-g", group, "--at", str(third.stored_at_ms + 1))
        assert [row["queue"] for row in rows] == [0, 1, 2]
        assert [row["answer"] for row in rows] == [
            answered(client, "t", group, queue) for queue in range(3)
        ]
        assert all(row["why"] for row in rows)
    (row, empty, _) = where(run, "t", "--at", str(third.stored_at_ms + 1))
    assert (row["min"], row["max"], row["oldest_ms"]) == (0, 3, first.stored_at_ms)
    assert (empty["min"], empty["max"], empty["oldest_ms"]) == (0, 0, -1)
    begins = row["answer"] == 0
    assert (row["first"], row["last"], row["timestamp"]) == ((0, 0, 0) if begins else (0, 3, 3))
    (now, *_) = where(run, "t", "-g", "CG")
    assert (now["answer"], now["first"], now["last"], now["timestamp"]) == (1, 1, 1, 1)
    assert "stored" in now["why"]
    client.call(222, {"group": "CG", "topic": "t", "timestamp": 0})
    assert "reset" in where(run, "t", "-g", "CG")[0]["why"]


@pytest.mark.parametrize("broker", ["new-queue"], indirect=True)
def test_a_queue_added_later_says_when_and_for_whom(client: RemotingClient, run: Run) -> None:
    made(client, "t", 1)
    client.send("t")
    commit(client, "t", 1)
    made(client, "t", 2)
    old, new = where(run, "t", "-g", "CG")
    assert old["added_ms"] == 0
    assert new["added_ms"] > 0
    assert new["answer"] == 0
    assert where(run, "t", "-g", "other")[1]["answer"] == -1


def test_a_topic_that_does_not_exist_has_no_beginning(run: Run) -> None:
    status, said = run("rocketmq", "where-would-a-group-begin", "never")
    assert status == 4
    assert "never" in said
    status, said = run("rocketmq", "where-would-a-group-begin", "a.b")
    assert status != 0


def test_exported_files_are_rocketmqs_and_are_imported(
    client: RemotingClient, run: Run, tmp_path: Path
) -> None:
    made(client, "t", 2)
    for queue in (0, 0, 0, 1):
        client.send("t", e=queue)
    commit(client, "t", 2)
    commit(client, "t", 1, 1)
    client.call(200, {}, b'{"groupName":"CG","retryMaxTimes":5}')
    client.call(17, {"topic": "t", "readQueueNums": 2, "writeQueueNums": 1, "perm": 6})
    folder = tmp_path / "made" / "here"
    status, answer = run("rocketmq", "offsets", "export", folder)
    assert status == 0, answer
    assert answer["files"] == ["consumerOffset.json", "subscriptionGroup.json", "topics.json"]
    offsets = (folder / "consumerOffset.json").read_text()
    assert list(decode_body(offsets.encode())) == [  # type: ignore[arg-type]
        "dataVersion", "groupTopicMap", "offsetTable",
    ]  # fmt: skip
    assert '"t@CG":{0:2,1:1}' in offsets, "queue ids are not quoted, as RocketMQ writes them"
    assert json.loads((folder / "topics.json").read_text())["topicConfigTable"]["t"][
        "writeQueueNums"
    ] == 1  # fmt: skip
    groups = json.loads((folder / "subscriptionGroup.json").read_text())
    assert groups["subscriptionGroupTable"]["CG"]["retryMaxTimes"] == 5
    assert run("rocketmq", "offsets", "export", folder)[0] == 2, "nothing is overwritten"
    commit(client, "t", 0)
    status, plan = run("rocketmq", "offsets", "import", folder / "consumerOffset.json", "--dry-run")
    assert status == 0
    assert [(row["queue"], row["offset"], row["present"]) for row in plan] == [(0, 2, 0), (1, 1, 1)]
    assert answered(client, "t", "CG") == 0, "a plan changes nothing"
    status, _ = run("rocketmq", "offsets", "import", folder / "consumerOffset.json", "--yes")
    assert status == 0
    assert answered(client, "t", "CG") == 2


def test_an_offset_that_its_queue_does_not_have_refuses_the_import(
    client: RemotingClient, run: Run, tmp_path: Path
) -> None:
    made(client, "t", 1)
    client.send("t")
    file = tmp_path / "consumerOffset.json"
    file.write_text(
        '{"offsetTable":{"never@CG":{0:0},"t@CG":{0:1,1:0},"t@CG_far":{0:2},"t@CG_min":{0:-1},'
        '"t@bad group":{0:0},"t@CG_quoted":{"0":1}}}'
    )
    status, plan = run("rocketmq", "offsets", "import", file, "--yes")
    assert status == 1
    refused = {(row["group"], row["topic"], row["queue"]): row["refused"] for row in plan}
    assert refused[("CG", "t", 0)] == ""
    assert refused[("CG_quoted", "t", 0)] == ""
    assert refused[("CG_far", "t", 0)] == "the queue has the offsets 0 to 1"
    assert refused[("CG_min", "t", 0)] == "the queue has the offsets 0 to 1"
    assert refused[("CG", "t", 1)] == "the topic has 1 queues"
    assert refused[("CG", "never", 0)] == "the topic does not exist"
    assert refused[("bad group", "t", 0)]
    named = {"consumerGroup": "CG", "topic": "t", "queueId": 0, "setZeroIfNotFound": "false"}
    assert code(client.call(14, named)) is ResponseCode.QUERY_NOT_FOUND, "nothing was stored"
    status, plan = run("rocketmq", "offsets", "import", file, "--yes", "--skip-refused")
    assert status == 0
    assert fields(client.call(14, named)) == {"offset": "1"}
    far = named | {"consumerGroup": "CG_far"}
    assert code(client.call(14, far)) is ResponseCode.QUERY_NOT_FOUND


def test_an_offset_that_its_queue_does_not_have_is_mapped_by_time(
    client: RemotingClient, run: Run, tmp_path: Path
) -> None:
    made(client, "t", 2)
    for number in range(3):
        client.send("t", b"%d" % number)
    times = [message.stored_at_ms for message in messages_in(client.pull("t"))]
    file = tmp_path / "consumerOffset.json"
    file.write_text('{"offsetTable":{"t@CG":{0:500,1:7},"t@CG_near":{0:1}}}')
    begin = times.index(times[2])
    for at_ms, offset in ((0, 0), (times[2], begin), (times[2] + 1, 3)):
        status, plan = run("rocketmq", "offsets", "import", file, "--at", at_ms, "--dry-run")
        assert status == 0
        found = [(row["group"], row["queue"], row["given"], row["offset"]) for row in plan]
        assert found == [("CG", 0, 500, offset), ("CG", 1, 7, 0), ("CG_near", 0, 1, 1)]
    status, _ = run("rocketmq", "offsets", "import", file, "--at", times[2], "--yes")
    assert status == 0
    assert (answered(client, "t", "CG"), answered(client, "t", "CG_near")) == (begin, 1)


def test_exported_topics_and_groups_are_imported_by_another_broker(
    client: RemotingClient, run: Run, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    made(client, "t", 3)
    client.call(17, {"topic": "t", "readQueueNums": 3, "writeQueueNums": 2, "perm": 4})
    client.call(200, {}, b'{"groupName":"CG","retryMaxTimes":5,"consumeEnable":false}')
    assert run("rocketmq", "offsets", "export", tmp_path)[0] == 0
    topics, groups = tmp_path / "topics.json", tmp_path / "subscriptionGroup.json"
    (row,) = run("rocketmq", "topics", "import", topics, "--dry-run")[1]
    assert (row["topic"], row["action"], row["present"]) == ("t", "keep", 3)
    with BrokerThread(SETTINGS) as other, RemotingClient(port_of(other)) as second:
        made(second, "t", 1)

        def ask(*words: object) -> Any:
            capfd.readouterr()
            given = [*map(str, words), "--json", "--yes", "-b", other.bootstrap]
            assert command(given) == 0
            return json.loads(capfd.readouterr().out)

        (row,) = ask("rocketmq", "topics", "import", topics)
        assert (row["action"], row["present"]) == ("change", 1)
        (row,) = ask("rocketmq", "groups", "import", groups)
        assert (row["group"], row["action"]) == ("CG", "create")
        assert ask("rocketmq", "groups", "import", groups)[0]["action"] == "keep"
        config = json.loads(bytes(second.call(351, {"topic": "t"}).body))
        assert (config["readQueueNums"], config["writeQueueNums"], config["perm"]) == (3, 2, 4)
        pull = second.pull("t")
        assert code(pull) is ResponseCode.NO_PERMISSION


def test_a_full_disk_may_delete_of_imported_topics_what_it_may_of_those_that_clients_create(
    broker: BrokerThread, client: RemotingClient, run: Run, tmp_path: Path
) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic("kafka", 1)])["kafka"].result(30)
    made(client, "t")
    file = tmp_path / "topics.json"
    names = ("kafka", "t", "imported", "%DLQ%CG")
    rows = {name: {"readQueueNums": 1, "writeQueueNums": 1, "perm": 4} for name in names}
    file.write_text(json.dumps({"topicConfigTable": rows}))
    for _ in range(2):
        assert run("rocketmq", "topics", "import", file, "--yes")[0] == 0
        assert cleanable(broker, *names) == [False, True, True, False]


def test_a_topic_that_cannot_be_had_refuses_the_file(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "topics.json"
    names = ("a.b", "fine", "TBW102", "__rocketmq-x" * 20)
    rows = {name: {"readQueueNums": 1, "writeQueueNums": 1, "perm": 6} for name in names}
    file.write_text(json.dumps({"topicConfigTable": rows}))
    status, plan = run("rocketmq", "topics", "import", file, "--yes")
    assert status == 1
    assert [row["action"] for row in plan] == ["leave out", "refuse", "refuse", "create"]
    status, plan = run("rocketmq", "topics", "import", file, "--yes", "--skip-refused")
    assert status == 0
    (row,) = [each for each in run("rocketmq", "topics", "import", file, "--dry-run")[1]
              if each["topic"] == "fine"]  # fmt: skip
    assert row["action"] == "keep"


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", '{"offsetTable":[]}', '{"offsetTable":{"t":{0:1}}}',
        '{"offsetTable":{"t@g@h":{0:1}}}', '{"offsetTable":{"t@g":5}}',
        '{"offsetTable":{"t@g":{0:"x"}}}', '{"offsetTable":{"t@g":{"x":1}}}',
    ],
)  # fmt: skip
def test_a_file_of_another_form_is_refused(run: Run, tmp_path: Path, text: str) -> None:
    file = tmp_path / "consumerOffset.json"
    file.write_text(text)
    status, said = run("rocketmq", "offsets", "import", file, "--yes")
    assert status != 0
    assert "consumerOffset.json" in said
    assert run("rocketmq", "offsets", "import", tmp_path / "none", "--yes")[0] == 2


def test_a_file_without_offsets_imports_nothing(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "consumerOffset.json"
    file.write_text('{"offsetTable":{}}')
    assert run("rocketmq", "offsets", "import", file, "--yes") == (0, [])


def test_a_broker_without_a_listener_for_rocketmq_says_so(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with BrokerThread() as broker:
        words = ["rocketmq", "where-would-a-group-begin", "t", "-b", broker.bootstrap]
        assert command(words) != 0
    assert "no ROCKETMQ listener" in capfd.readouterr().err
