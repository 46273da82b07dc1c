"""`headrace rocketmq move`: a stopped store becomes a data directory, message by message."""

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.cli.main import run as command
from headrace.cli.rocketmq import moved_settings
from headrace.posix.disk import RealDisk
from headrace.testing import BrokerThread
from headrace.wire.rocketmq.properties import decode_properties
from headrace.wire.rocketmq.stored_messages import PulledMessage, SystemFlag
from tests.support.processes.cli_kit import SCHEMAS, check
from tests.support.rocketmq.client import RemotingClient, messages_in
from tests.support.rocketmq.kit import SETTINGS, cleanable, code, fields, loaded, port_of, served
from tests.support.rocketmq.store_files import NOW_MS, StoreFiles, timer_checkpoint, topic_row
from tests.support.rocketmq.store_files import topics as topics_file

Move = Callable[..., tuple[int, Any, str]]
LATER_MS = 1 << 42
SCHEDULE, TIMER = "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer"
HALF, OP = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"


@pytest.fixture
def files(tmp_path: Path) -> StoreFiles:
    """A store without messages."""
    return StoreFiles(tmp_path / "store")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The new data directory, which does not exist."""
    return tmp_path / "moved" / "data"


@pytest.fixture
def move(files: StoreFiles, data: Path, capfd: pytest.CaptureFixture[str]) -> Move:
    """Exit code, plan and errors of a move."""

    def run(*words: str) -> tuple[int, Any, str]:
        capfd.readouterr()
        given = ["rocketmq", "move", str(files.root), "--data", str(data), "--json", "--yes"]
        status = command([*given, *words])
        said = capfd.readouterr()
        plan = json.loads(said.out) if said.out else None
        if plan is not None:
            check(json.loads((SCHEMAS / "rocketmq-move.json").read_text()), plan)
        return status, plan, said.err

    return run


def started(data: Path) -> BrokerThread:
    """Return a broker on the moved data, not started."""
    return BrokerThread(SETTINGS, directory=str(data))


def pulled(client: RemotingClient, topic: str, offset: int = 0, queue: int = 0) -> Any:
    """Return the messages of a queue from an offset on."""
    answer = client.pull(topic, offset, queueId=queue)
    return messages_in(answer)


def texts(messages: list[PulledMessage]) -> list[tuple[int, bytes]]:
    """Return offset and body of each message."""
    return [(message.queue_offset, message.body) for message in messages]


def test_messages_keep_offsets_times_and_properties(
    files: StoreFiles, data: Path, move: Move
) -> None:
    large = b"body " * 2000
    files.begin("orders", 1, 120)
    files.put("orders", 0, b"first", {"TAGS": "A", "KEYS": "k1", "own": "x"}, stored_ms=NOW_MS + 7)
    files.put("orders", 1, b"at 120")
    files.put(
        "orders",
        0,
        zlib.compress(large),
        {"KEYS": "k2"},
        system_flag=SystemFlag.COMPRESSED,
        times=3,
    )
    for number in range(130):
        files.put("orders", 1, b"%d" % number)
    files.write(
        topics=topics_file(topic_row("orders"), topic_row("TBW102", 8, 8, 7)),
        consumerOffset={"offsetTable": {"orders@CG": {"0": 1, "1": 200}, "orders@old": {"1": 3}}},
    )
    status, plan, said = move()
    assert status == 0, said
    assert plan["messages"] == 133
    assert plan["raised_offsets"] == 1
    (topic,) = plan["topics"]
    assert [(queue["start"], queue["end"]) for queue in topic["queues"]] == [
        (0, 2), (120, 251), (0, 0), (0, 0),
    ]  # fmt: skip
    with started(data) as broker, RemotingClient(port_of(broker)) as client:
        first, second = pulled(client, "orders")
        assert (first.queue_offset, first.body, first.stored_at_ms) == (0, b"first", NOW_MS + 7)
        assert first.born_at_ms == NOW_MS + 2
        assert decode_properties(first.properties) == {
            "TAGS": "A", "KEYS": "k1", "own": "x", "MSG_REGION": "DefaultRegion",
            "CLUSTER": "DefaultCluster", "TRACE_ON": "true",
        }  # fmt: skip
        assert (second.body, second.reconsume_times) == (large, 3)
        queue = {"topic": "orders", "queueId": 1}
        assert fields(client.call(31, queue)) == {"offset": "120"}
        assert fields(client.call(30, queue)) == {"offset": "251"}
        assert texts(pulled(client, "orders", 120, 1))[:2] == [(120, b"at 120"), (121, b"0")]
        found = client.call(29, {"topic": "orders", "queueId": 0, "timestamp": NOW_MS + 1})
        assert fields(found) == {"offset": "0"}
        loaded(client, "CG", "orders")
        for group, expected in (("CG", {0: 1, 1: 200}), ("old", {1: 120})):
            for number, offset in expected.items():
                named = {"consumerGroup": group, "topic": "orders", "queueId": number}
                assert fields(client.call(14, named)) == {"offset": str(offset)}
        assert fields(client.send("orders", b"next", e=1))["queueOffset"] == "251"


def test_topics_and_groups_keep_their_settings(files: StoreFiles, data: Path, move: Move) -> None:
    files.put("%RETRY%CG", 0, b"retried")
    files.put("%DLQ%CG", 0, b"dead")
    files.put("shrunk", 5, b"hidden")
    files.write(
        topics=topics_file(
            topic_row("narrow", 4, 2, 4), topic_row("shrunk", 2, 2), topic_row("SELF_TEST_TOPIC"),
            topic_row("DefaultCluster", 1, 1, 5), topic_row("%RETRY%CG", 1, 1),
        ),
        subscriptionGroup={
            "subscriptionGroupTable": {
                "CG": {"groupName": "CG", "retryMaxTimes": 3, "consumeEnable": False},
                "TOOLS_CONSUMER": {"groupName": "TOOLS_CONSUMER"},
            }
        },
    )  # fmt: skip
    status, plan, said = move("--set", "rocketmq.file.reserved.hours=10")
    assert status == 0, said
    assert plan["groups"] == ["CG"]
    assert [topic["topic"] for topic in plan["topics"]] == [
        "%DLQ%CG", "%RETRY%CG", "narrow", "shrunk",
    ]  # fmt: skip
    with started(data) as broker, RemotingClient(port_of(broker)) as client:
        row = json.loads(bytes(client.call(351, {"topic": "narrow"}).body))
        assert (row["readQueueNums"], row["writeQueueNums"], row["perm"]) == (4, 2, 4)
        row = json.loads(bytes(client.call(351, {"topic": "shrunk"}).body))
        assert (row["readQueueNums"], row["writeQueueNums"]) == (2, 2)
        config = broker.call(lambda server: served(server).configs.groups.get("CG"))
        assert config is not None
        assert (config.retries_max, config.consume_enabled) == (3, False)
        assert texts(pulled_by(client, "other", "%DLQ%CG")) == [(0, b"dead")]
        kept = broker.call(
            lambda server: server.broker.partition("narrow", 0).log.config.retention_ms
        )
        assert kept == 10 * 3_600_000
        topics = ("narrow", "shrunk", "%RETRY%CG", "%DLQ%CG")
        assert cleanable(broker, *topics) == [True, True, False, False], "as a client's topics"


def pulled_by(client: RemotingClient, group: str, topic: str) -> list[PulledMessage]:
    """Return the messages that a group pulls from queue 0 of a topic."""
    return messages_in(client.pull(topic, consumerGroup=group))


def waiting(topic: str, queue: int = 0, **more: str) -> dict[str, str]:
    """Return the properties of a message that waits for a queue."""
    return {"REAL_TOPIC": topic, "REAL_QID": str(queue), **more}


def test_messages_that_wait_for_a_level_are_delivered_at_their_time(
    files: StoreFiles, data: Path, move: Move
) -> None:
    for name, due_ms in (("gone", 1), ("due", 2), ("waits", LATER_MS)):
        files.put(
            SCHEDULE, 4, name.encode(), waiting("%RETRY%CG", DELAY="5"), tags_code=NOW_MS + due_ms
        )
    files.write(delayOffset={"offsetTable": {"5": 1}})
    status, plan, said = move()
    assert status == 0, said
    assert plan["delayed_messages"] == 2
    with started(data) as broker, RemotingClient(port_of(broker)) as client:
        assert [each.body for each in arrived(client, "%RETRY%CG", 1)] == [b"due"]
        count = broker.call(lambda server: len(served(server).held.delays.value or ()))
        assert count == 1


def arrived(client: RemotingClient, topic: str, count: int) -> list[PulledMessage]:
    """Return the messages of a queue once there are so many; parked pulls wait for them."""
    found: list[PulledMessage] = []
    while len(found) < count:
        after = found[-1].queue_offset + 1 if found else 0
        answer = client.pull(topic, after, sysFlag=6, suspendTimeoutMillis=10_000)
        found += messages_in(answer)
    return found


def test_the_newest_copy_of_a_message_with_a_time_waits(
    files: StoreFiles, data: Path, move: Move
) -> None:
    for name, due_ms, more in (
        ("delivered", 10, {}),
        ("rolled", LATER_MS, {}),
        ("rolled", LATER_MS, {"TIMER_ROLL_TIMES": "1"}),
        ("recalled", LATER_MS, {}),
        ("recall", LATER_MS, {"TIMER_DEL_UNIQKEY": "later+recalled"}),
        ("waits", LATER_MS + 1, {}),
        ("unread", 20, {}),
    ):
        names = {"TIMER_OUT_MS": str(NOW_MS + due_ms), "UNIQ_KEY": name}
        files.put(TIMER, 0, name.encode(), {**waiting("later"), **names, **more})
    files.write(timercheck=timer_checkpoint(NOW_MS + 1000, 6))
    status, plan, said = move()
    assert status == 0, said
    assert plan["delayed_messages"] == 3
    with started(data) as broker, RemotingClient(port_of(broker)) as client:
        assert [each.body for each in arrived(client, "later", 1)] == [b"unread"]
        assert broker.call(lambda server: len(served(server).held.delays.value or ())) == 2


def test_undecided_messages_are_asked_about_and_decided_ones_are_not(
    files: StoreFiles, data: Path, move: Move
) -> None:
    places = {}
    for name in ("passed", "rolled", "committed", "open", "asked", "unnoted", "asked"):
        properties = waiting("paid", 1, UNIQ_KEY=name, PGROUP="PG", TRAN_MSG="true")
        places[name] = files.put(HALF, 0, name.encode(), properties)
    files.put(OP, 0, b"1,2,")
    files.put(
        "paid", 1, b"unnoted", {"UNIQ_KEY": "unnoted"}, system_flag=SystemFlag.COMMITTED,
        prepared=places["unnoted"],
    )  # fmt: skip
    files.write(
        topics=topics_file(topic_row("paid")),
        consumerOffset={"offsetTable": {f"{HALF}@CID_RMQ_SYS_TRANS": {"0": 1}}},
    )
    status, plan, said = move("--set", "rocketmq.transaction.timeout.ms=0")
    assert status == 0, said
    assert plan["undecided_messages"] == 2
    with started(data) as broker, RemotingClient(port_of(broker)) as client:
        client.produces("one", "PG")
        asked: dict[bytes, dict[str, str]] = {}
        while len(asked) < 2:
            question = client.wait_notified(39)
            (message,) = messages_in(question)
            asked[message.body] = fields(question)
        assert set(asked) == {b"open", b"asked"}
        for body, names in asked.items():
            decision = 8 if body == b"open" else 12
            client.call(37, {
                "producerGroup": "PG", "tranStateTableOffset": names["tranStateTableOffset"],
                "commitLogOffset": names["commitLogOffset"], "commitOrRollback": decision,
            })  # fmt: skip
        assert texts(pulled(client, "paid", queue=1)) == [(0, b"unnoted"), (1, b"open")]


def test_a_damaged_message_is_named_and_skipped_only_on_request(
    files: StoreFiles, data: Path, move: Move
) -> None:
    for number in range(3):
        position = files.put("orders", 0, b"body %d" % number)
        if number == 1:
            damaged = position
    files.write(consumerOffset={"offsetTable": {"orders@CG": {"0": 1}}})
    path = files.root / "commitlog" / f"{0:020}"
    content = bytearray(path.read_bytes())
    content[content.index(b"body 1")] ^= 1
    path.write_bytes(content)
    status, plan, said = move()
    assert status == 1
    assert "1 messages cannot be read" in said
    (damage,) = plan["damages"]
    assert f"topic orders, queue 0, offset 1 (file {path.name}, position {damaged})" in str(damage)
    assert "CRC" in damage["why"]
    assert not data.parent.exists()
    assert move("--dry-run")[:2] == (0, plan)
    status, plan, said = move("--skip-damaged")
    assert status == 0, said
    with started(data) as broker, RemotingClient(port_of(broker)) as client:
        assert texts(pulled(client, "orders")) == [(0, b"body 0"), (2, b"body 2")]
        assert texts(pulled(client, "orders", 1)) == [(2, b"body 2")]


def test_a_store_that_is_not_stopped_or_not_whole_is_refused(
    files: StoreFiles, data: Path, move: Move
) -> None:
    assert move()[0] == 2, "no store yet"
    for number in range(600):
        files.put("orders", 0, b"%d" % number + b" " * 200)
    files.write()
    abort = files.root / "abort"
    abort.write_text("")
    status, _, said = move()
    assert (status, "not stopped cleanly" in said) == (1, True)
    abort.unlink()
    other = files.root / "consumequeue_rocksdb"
    other.mkdir()
    (other / "CURRENT").write_text("")
    status, _, said = move()
    assert (status, "another kind" in said) == (1, True)
    (other / "CURRENT").unlink()
    entries = files.root / "consumequeue" / "orders" / "0" / f"{550 * 20:020}"
    content = entries.read_bytes()
    entries.write_bytes(content[: 45 * 20].ljust(len(content), b"\0"))
    status, _, said = move()
    assert (status, "5 messages at the end of the commit log are in no queue" in said) == (1, True)
    entries.write_bytes(content)
    second = sorted((files.root / "commitlog").iterdir())[1]
    away = second.rename(files.root / "away")
    status, _, said = move()
    assert (status, "is missing before it" in said) == (1, True)
    away.rename(second)
    assert not data.parent.exists()
    assert move("--dry-run")[0] == 0
    assert not data.parent.exists(), "a plan writes nothing"
    data.mkdir(parents=True)
    (data / "mine").write_text("")
    assert move()[0] == 2
    (data / "mine").unlink()
    assert move()[0] == 0


def test_a_store_with_a_running_broker_is_refused(files: StoreFiles, move: Move) -> None:
    files.put("orders", 0, b"x")
    files.write()
    unlock = RealDisk(None).lock(str(files.root / "lock"))
    try:
        status, _, said = move()
    finally:
        unlock()
    assert (status, "a broker is running on it" in said) == (1, True)


def test_contents_without_a_counterpart_are_left_out_only_on_request(
    files: StoreFiles, data: Path, move: Move
) -> None:
    files.put("orders", 0, b"x")
    files.put("%LMQ%light", 0, b"y")
    files.put("__consumer_offsets", 0, b"z")
    files.put("OFFSET_MOVED_EVENT", 0, b"event")
    files.put("rmq_sys_REVIVE_LOG_DefaultCluster", 0, b"popped")
    files.write(
        consumerOffset={"offsetTable": {"orders@CG": {"0": 5}, "deleted@CG": {"0": 1, "1": 2}}}
    )
    status, plan, said = move()
    assert status == 1
    assert "4 entries of the plan cannot be moved" in said
    found = {each["what"]: (each["count"], each["matters"]) for each in plan["left_out"]}
    assert found == {
        "topic %LMQ%light": (1, True),
        "topic __consumer_offsets": (1, True),
        "topic OFFSET_MOVED_EVENT": (1, False),
        "offset 5 of group CG, topic orders, queue 0": (1, True),
        "offsets of groups on topic deleted": (2, False),
        "records of popped messages": (1, True),
    }
    assert not data.exists()
    assert move("--leave-out")[0] == 0
    with started(data) as broker, RemotingClient(port_of(broker)) as client:
        loaded(client, "CG", "orders")
        named = {"consumerGroup": "CG", "topic": "orders", "queueId": 0}
        missing = client.call(14, named | {"setZeroIfNotFound": "false"})
        assert code(missing).name == "QUERY_NOT_FOUND"


@pytest.mark.parametrize("where", ["finish", "verify", "store_settings"])
def test_an_interrupted_move_leaves_nothing_and_is_repeated(
    files: StoreFiles, data: Path, move: Move, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(100):
        files.put("orders", number % 2, b"%d" % number)
    files.write(consumerOffset={"offsetTable": {"orders@CG": {"0": 20}}})
    from headrace.logtools.rocketmq.write import MovedLogs

    def interrupted(*given: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(
            moved_settings if where == "store_settings" else MovedLogs, where, interrupted
        )
        with pytest.raises(SystemExit):
            move()
    assert not data.exists()
    assert (data.parent / "data.moving").exists()
    assert move()[0] == 0
    assert not (data.parent / "data.moving").exists()
    with started(data) as broker, RemotingClient(port_of(broker)) as client:
        ends = [
            fields(client.call(30, {"topic": "orders", "queueId": queue}))["offset"]
            for queue in range(2)
        ]
    assert ends == ["50", "50"]
