"""The command against a real broker: what it says, what it leaves behind."""

import io
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import pytest

from headrace.cli.main import run
from tests.support.processes.process import HEADRACE, BrokerProcess

_NAMES = count()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("cli")) as one:
        yield one


class Said(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


Say = Callable[..., Said]


@pytest.fixture
def say(
    broker: BrokerProcess,
    capfdbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Say:
    """Run the command in this process; `stdin` is what it reads."""
    monkeypatch.setenv("HEADRACE_BOOTSTRAP", broker.bootstrap)

    def call(*words: str, stdin: bytes = b"") -> Said:
        given = tmp_path / "stdin"
        given.write_bytes(stdin)
        with given.open("rb") as source:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(source, "utf-8"))
            code = run(words)
        sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        return Said(code, out.decode(), err.decode())

    return call


@pytest.fixture
def topic(say: Say) -> str:
    name = f"cli-{next(_NAMES)}"
    assert say("topic", "create", name, "-p", "3").code == 0
    return name


def test_topics_are_created_listed_described_altered_and_deleted(say: Say) -> None:
    name = f"whole-{next(_NAMES)}"
    made = say("topic", "create", name, "-p", "2", "-r", "1", "-c", "retention.ms=60000")
    assert made.out == f"created {name}\n"
    assert name in say("topic", "list").out
    listed = {one["topic"]: one for one in say("topic", "list", "--json").json}
    assert listed[name]["partition_count"] == 2
    altered = say("topic", "alter", name, "-p", "4", "-c", "segment.bytes=2000000")
    assert altered.code == 0
    (told,) = say("topic", "describe", name, "--json").json
    assert len(told["partitions"]) == 4
    assert told["configs"]["retention.ms"] == {"value": "60000", "source": "topic"}
    assert told["configs"]["segment.bytes"]["value"] == "2000000"
    assert say("topic", "alter", name, "-d", "retention.ms").code == 0
    (told,) = say("topic", "describe", name, "--json").json
    assert "retention.ms" not in told["configs"]
    (told,) = say("topic", "describe", name, "--json", "-a").json
    assert told["configs"]["retention.ms"]["source"] == "default"
    assert say("topic", "delete", name).out == f"deleted {name}\n"
    assert name not in say("topic", "list").out


def test_words_of_kafka_topics_work_too(say: Say, broker: BrokerProcess) -> None:
    name = f"kafka-{next(_NAMES)}"
    words = ["--topic", name, "--partitions", "2", "--replication-factor", "1"]
    where = ["--bootstrap-server", broker.bootstrap]
    assert say("topic", "create", *words, "--config", "cleanup.policy=compact", *where).code == 0
    assert "compact" in say("topic", "describe", "--topic", name, *where).out
    assert say("topic", "delete", "--topic", name, "-X", f"brokers={broker.bootstrap}").code == 0


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        (["topic", "create", "a/b"], 1, "INVALID_TOPIC_EXCEPTION"),
        (["produce", "a b"], 1, "topic a b: contains characters other than"),
        (["topic", "create", "x", "-r", "9"], 1, "INVALID_REPLICATION_FACTOR"),
        (["topic", "create", "x", "-c", "retention.ms=soon"], 1, "retention.ms=soon"),
        (["topic", "describe", "missing-one"], 4, "there is no topic missing-one"),
        (["topic", "delete", "missing-one"], 4, "there is no topic missing-one"),
        (["consume", "missing-one", "-e"], 4, "there is no topic missing-one"),
        (["group", "describe", "missing-group"], 4, "there is no group missing-group"),
        (["group", "delete", "missing-group"], 4, "there is no group missing-group"),
        (["topic", "list", "-b", "127.0.0.1:1"], 3, "connection refused"),
    ],
)
def test_what_cannot_be_done_is_one_line(say: Say, words: list[str], code: int, part: str) -> None:
    said = say(*words)
    assert said.code == code
    assert said.out == ""
    assert part in said.err
    assert len(said.err.splitlines()) == 1


def test_an_existing_topic_is_an_error_unless_it_may_exist(say: Say, topic: str) -> None:
    assert say("topic", "create", topic).code == 1
    again = say("topic", "create", topic, "--if-not-exists", "--json")
    assert again.json == [{"topic": topic, "created": False, "error": None}]
    assert say("topic", "delete", "never-was", "--if-exists").code == 0


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_is_produced_is_consumed(say: Say, topic: str, codec: str) -> None:
    lines = b"".join(b"k%d\tv%d\n" % (number, number) for number in range(50))
    sent = say(
        "produce", topic, "--key-separator", "\\t", "-H", "h=1", "-z", codec, "--json", stdin=lines
    )
    assert sent.json["records"] == 50
    rows = say("consume", topic, "--from-beginning", "-e", "--json").rows
    assert {(row["key"], row["value"]) for row in rows} == {
        (f"k{number}", f"v{number}") for number in range(50)
    }
    assert all(row["headers"] == [{"key": "h", "value": "1"}] for row in rows)
    assert all(row["timestamp"] > 1_700_000_000_000 for row in rows)


def test_keys_go_where_other_clients_put_them(broker: BrokerProcess, say: Say, topic: str) -> None:
    keys = [f"key-{number}" for number in range(40)]
    java = {"bootstrap.servers": broker.bootstrap, "partitioner": "murmur2_random"}
    producer = confluent_kafka.Producer(java)
    for key in keys:
        producer.produce(topic, b"theirs", key)
    assert producer.flush(20) == 0
    lines = "".join(f"{key}:ours\n" for key in keys).encode()
    assert say("produce", topic, "--key-separator", ":", stdin=lines).code == 0
    rows = say("consume", topic, "--from-beginning", "-e", "--json").rows
    assert len(rows) == 80
    assert len({(row["key"], row["partition"]) for row in rows}) == 40


def test_the_last_line_needs_no_end_and_crlf_is_an_end(say: Say, topic: str) -> None:
    say("produce", topic, "-p", "1", stdin=b"one\r\ntwo")
    assert say("consume", topic, "-p", "1", "--from-beginning", "-e").out == "one\ntwo\n"


@pytest.mark.parametrize("acks", ["all", "1", "0"])
def test_acks_are_as_asked(say: Say, topic: str, acks: str) -> None:
    assert say("produce", topic, "--acks", acks, stdin=b"x\n").code == 0
    assert say("consume", topic, "-o", "start", "-n", "1", "--timeout", "5").out == "x\n"


def test_files_are_produced_whole(say: Say, topic: str, tmp_path: Any) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"".join(b"%07d\n" % number for number in range(30_000)))
    sent = say("produce", topic, str(file), "-p", "0", "--json")
    assert sent.json["partitions"] == [{"partition": 0, "last_offset": 29_999}]
    said = say("consume", topic, "-p", "0", "--from-beginning", "-e")
    assert said.out == file.read_text()


def test_places_to_begin_are_understood(say: Say, topic: str) -> None:
    say("produce", topic, "-p", "0", stdin=b"0\n1\n2\n3\n4\n")
    assert say("consume", topic, "-p", "0", "-o", "3", "-e").out == "3\n4\n"
    assert say("consume", topic, "-p", "0", "--offset=-2", "-e").out == "3\n4\n"
    assert say("consume", topic, "-p", "0", "-o", "-2", "-e").out == "3\n4\n"
    assert say("consume", topic, "-p", "0", "-o", "@0", "-n", "2").out == "0\n1\n"
    assert say("consume", topic, "-p", "0", "-o", "end", "--timeout", "0.2").out == ""
    assert say("consume", topic, "-p", "0", "-o", "@4102444800000", "-e").out == ""


def test_tombstones_and_json_lines_are_sent(say: Say, topic: str) -> None:
    assert say("produce", topic, "-k", "gone", "--tombstone").code == 0
    line = b'{"key":"k","value_base64":"/w==","timestamp":5,"headers":[{"key":"h","value":null}]}\n'
    assert say("produce", topic, "-f", "json", stdin=line).code == 0
    rows = {row["key"]: row for row in say("consume", topic, "-o", "start", "-e", "--json").rows}
    assert rows["gone"]["value"] is None
    assert (rows["k"]["value"], rows["k"]["value_encoding"]) == ("/w==", "base64")
    assert rows["k"]["timestamp"] == 5


def test_formats_and_kafkas_properties_shape_the_output(say: Say, topic: str) -> None:
    say("produce", topic, "-k", "key", "-p", "2", stdin=b"value\n")
    words = ["consume", topic, "-o", "start", "-e"]
    assert say(*words, "-f", "%t %p %o %k=%v\\n").out == f"{topic} 2 0 key=value\n"
    assert say(*words, "--property", "print.key=true").out == "key\tvalue\n"


def test_a_group_is_consumed_described_moved_and_deleted(say: Say, topic: str) -> None:
    group = f"group-{topic}"
    say("produce", topic, "-p", "0", stdin=b"0\n1\n2\n")
    read = ["consume", topic, "-g", group, "--from-beginning", "-e"]
    assert say(*read).out == "0\n1\n2\n"
    assert say(*read).out == ""
    assert group in say("group", "list").out
    (told,) = say("group", "describe", group, "--json").json
    assert (told["state"], told["lag"]) == ("Empty", 0)
    dry = say("group", "seek", group, "--to", "-2", "--topics", f"{topic}:0", "--dry-run", "--json")
    assert dry.json["partitions"] == [
        {"topic": topic, "partition": 0, "from_offset": 3, "to_offset": 1}
    ]
    assert say(*read).out == ""
    assert say("group", "seek", group, "--to", "-2", "--topics", f"{topic}:0").code == 0
    assert "lag 2" in say("group", "describe", group).out
    assert say(*read).out == "1\n2\n"
    assert say("group", "seek", group, "--to", "start").code == 0
    (told,) = say("group", "describe", group, "--json").json
    assert told["lag"] == 3
    assert say("group", "delete", group).out == f"deleted {group}\n"
    assert say("group", "describe", group).code == 4


def test_reading_a_part_commits_a_part(say: Say, topic: str) -> None:
    group = f"part-{topic}"
    say("produce", topic, "-p", "0", stdin=b"0\n1\n2\n")
    read = ["consume", topic, "-g", group, "-o", "start"]
    assert say(*read, "-n", "2").out == "0\n1\n"
    assert say(*read, "-e").out == "2\n"


def test_what_groups_commit_can_be_read(say: Say, topic: str) -> None:
    group = f"seen-{topic}"
    say("produce", topic, "-p", "0", stdin=b"0\n")
    say("consume", topic, "-g", group, "-o", "start", "-e")
    said = say("consume", "__consumer_offsets", "-o", "start", "-e", "--formatter", "offsets")
    found = {row["key"]["data"]["group"]: row for row in said.rows}[group]
    assert found["key"] == {"type": 1, "data": {"group": group, "topic": topic, "partition": 0}}
    assert (found["value"]["version"], found["value"]["data"]["offset"]) == (3, 1)
    kafkas = "org.apache.kafka.tools.consumer.GroupMetadataMessageFormatter"
    said = say("consume", "__consumer_offsets", "-o", "start", "-e", "--formatter", kafkas)
    assert {row["key"]["type"] for row in said.rows} == {2}
    assert group in {row["key"]["data"]["group"] for row in said.rows}
    wrong = say("consume", topic, "-o", "start", "-e", "--formatter", "offsets")
    assert "no such records" in wrong.err


def test_a_reader_that_goes_away_is_no_error(broker: BrokerProcess, say: Say, topic: str) -> None:
    say("produce", topic, stdin=b"line\n" * 50_000)
    command = f"{HEADRACE} consume {topic} -b {broker.bootstrap} -o start -e | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.stdout == "line\n"
    assert done.stderr == ""


def test_a_damaged_line_is_named_and_ends_it(say: Say, topic: str) -> None:
    said = say("produce", topic, "--key-separator", ":", stdin=b"a:1\nnothing\n")
    assert said.code == 1
    assert "line 2" in said.err


def test_a_record_too_large_says_so(say: Say, topic: str) -> None:
    said = say("produce", topic, stdin=b"x" * 1_100_000)
    assert said.code == 1
    assert "MESSAGE_TOO_LARGE" in said.err
    assert "max.message.bytes" in said.err
