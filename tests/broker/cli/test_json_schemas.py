"""`--json`: each verb prints what its schema in docs/schemas says, and errors are JSON too."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from headrace.cli.command_tree import app
from headrace.cli.main import run as command
from headrace.client.consumer.member import Member
from headrace.client.sync import connect, run
from headrace.testing import BrokerThread
from tests.support.processes.cli_kit import REMARK, SCHEMAS, check

Asked = Callable[..., tuple[int, list[Any]]]


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    with BrokerThread() as started:
        started.create_topics("t", partitions=2)
        yield started


@pytest.fixture
def asked(broker: BrokerThread, capfd: pytest.CaptureFixture[str]) -> Asked:
    """The exit code and the JSON lines of a command, held to the schema of that name."""

    def ask(name: str, *words: str, there: bool = True) -> tuple[int, list[Any]]:
        where = ["-b", broker.bootstrap] if there else []
        code = command([*words, "--json", *where])
        said = capfd.readouterr()
        answers = [json.loads(line) for line in said.out.splitlines()]
        schema = json.loads((SCHEMAS / f"{name}.json").read_text())
        for answer in answers:
            check(schema, answer)
        for line in said.err.splitlines():
            check(REMARK, json.loads(line))
        return code, answers

    return ask


def test_every_schema_is_one_and_says_what_it_is_of() -> None:
    for path in SCHEMAS.glob("*.json"):
        schema = json.loads(path.read_text())
        Draft202012Validator.check_schema(schema)
        assert schema["title"], path


def test_every_verb_that_speaks_json_has_its_schema() -> None:
    def verbs(of: Any, before: tuple[str, ...] = ()) -> Iterator[str]:
        for name in of:
            if name.startswith("-"):
                continue
            found = of[name]
            words = (*before, found.name[0])
            if found.default_command is None:
                yield from verbs(found, words)
            elif any(
                "--json" in argument.names for argument in found.assemble_argument_collection()
            ):
                yield "-".join(words)

    expected = set(verbs(app)) | {"trace-list", "trace-follow", "common"}
    assert expected == {path.stem for path in SCHEMAS.glob("*.json")}


def test_topics_verbs_answer_as_their_schemas_say(asked: Asked) -> None:
    code, ((one, there, two),) = asked("topic-create", "topic", "create", "a", "t", "b")
    assert (code, one["error"], two["error"]) == (1, None, None), "what succeeded is shown"
    assert there["created"] is False
    assert there["error"]["code"] == "TOPIC_ALREADY_EXISTS"
    assert asked("topic-list", "topic", "list", "-i")[0] == 0
    code, ((found, missing),) = asked("topic-describe", "topic", "describe", "t", "x", "-a")
    assert (code, missing["error"]["code"]) == (4, "NOT_FOUND")
    _, (listed,) = asked("topic-list", "topic", "list")
    ids = {topic["topic"]: topic["topic_id"] for topic in listed}
    assert found["topic_id"] == ids["t"], "the same id in the same form"
    assert asked("topic-alter", "topic", "alter", "t", "-p", "3")[0] == 0
    code, ((gone, _),) = asked("topic-delete", "topic", "delete", "a", "x")
    assert (code, gone["deleted"]) == (4, True)


def test_records_are_the_same_whoever_prints_them_and_come_back_as_they_were(
    asked: Asked, broker: BrokerThread, tmp_path: Path
) -> None:
    lines = (
        '{"key":"k","value":"v","partition":1,"timestamp":5,"headers":[{"key":"h","value":"x"}]}\n'
        '{"key":"/w==","key_encoding":"base64","value":null,"partition":1,"headers":[]}\n'
    )
    (tmp_path / "in").write_text(lines)
    code, (report,) = asked("produce", "produce", "t", str(tmp_path / "in"), "-f", "json")
    assert (code, report["partitions"]) == (0, [{"partition": 1, "last_offset": 1}])
    _, records = asked("consume", "consume", "t", "--from-beginning", "-e")
    assert [record["headers"] for record in records] == [[{"key": "h", "value": "x"}], []]
    (tmp_path / "again").write_text("".join(json.dumps(record) + "\n" for record in records))
    asked("produce", "produce", "t", str(tmp_path / "again"), "-f", "json")
    _, four = asked("consume", "consume", "t", "--from-beginning", "-e")
    assert [{**record, "offset": 0} for record in four[:2]] == [
        {**record, "offset": 0} for record in four[2:]
    ]
    _, rows = asked("log-dump", "log", "dump", "-r", f"{broker.directory}/t-1", there=False)
    names = ("offset", "timestamp", "key", "value", "headers")
    dumped = [{name: row[name] for name in names} for row in rows if "headers" in row]
    assert dumped == [{name: record[name] for name in names} for record in four]
    (tmp_path / "wrong").write_text('{"value":"x"}\n{"foo":"a"}\n')
    code, (report,) = asked("produce", "produce", "t", str(tmp_path / "wrong"), "-f", "json")
    assert (code, report["records"], report["error"]["code"]) == (1, 0, "FAILED")


def test_groups_verbs_answer_as_their_schemas_say(asked: Asked, broker: BrokerThread) -> None:
    with connect(broker.bootstrap) as client:
        member = Member(client, "g", ["t"])
        run(member.join())
        code, ((found, missing),) = asked("group-describe", "group", "describe", "g", "x")
        assert (code, missing["error"]["code"]) == (4, "NOT_FOUND")
        assert [row["lag"] for row in found["partitions"]] == [None, None]
        assert found["lag"] is None, "nothing was committed: nobody knows"
        assert found["members"][0]["partitions"][0] == {"topic": "t", "partition": 0}
        run(member.leave())
    seek = ("group", "seek", "g", "--to", "start", "--topics", "t")
    assert asked("group-seek", *seek)[0] == 0
    assert asked("group-list", "group", "list")[0] == 0
    _, ((found,),) = asked("group-describe", "group", "describe", "g")
    assert found["lag"] == 0
    assert asked("group-delete", "group", "delete", "g", "x")[0] == 4


def test_clusters_verbs_answer_as_their_schemas_say(asked: Asked) -> None:
    for name in ("status", "controller", "brokers", "partitions"):
        code, answers = asked(f"cluster-{name}", "cluster", name)
        assert (code, len(answers)) == (0, 1)
    assert asked("cluster-elect-leaders", "cluster", "elect-leaders", "t")[0] in {0, 1}
    code, ((one,),) = asked("cluster-reassign", "cluster", "reassign", "t:0=9")
    assert (code, one["error"] is None) == (1, False)
    assert asked("cluster-reassign", "cluster", "reassign", "--list") == (0, [[]])


def test_verbs_that_measure_and_query_answer_as_their_schemas_say(
    asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = asked("perf-produce", "perf", "produce", "t", "--records", "100")[1]
    assert measured[0]["records"] == 100
    assert asked("perf-consume", "perf", "consume", "t", "--records", "100")[0] == 0
    assert asked("disk", "disk")[0] == 0
    code, rows = asked("query", "query", "select partition, count(*) n from t group by all")
    assert (code, sum(row["n"] for row in rows)) == (0, 100)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert asked("profile-list", "profile", "list", there=False) == (0, [[]])


def test_profiles_are_shown_as_their_schemas_say(
    asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert command(["profile", "create", "a", "-b", "h:1"]) == 0
    capfd.readouterr()
    assert asked("profile-list", "profile", "list", there=False)[0] == 0
    assert asked("profile-show", "profile", "show", there=False)[0] == 0


def test_files_and_traces_verbs_answer_as_their_schemas_say(
    asked: Asked, broker: BrokerThread
) -> None:
    code, answers = asked("log-verify", "log", "verify", *[broker.directory] * 2, there=False)
    assert (code, len(answers)) == (0, 2)
    assert asked("trace-list", "trace", "--list", there=False)[0] == 0
    assert asked("trace", "trace", "isr-shrink", there=False)[0] == 0


def test_what_trace_follows_is_as_its_schema_says(
    broker: BrokerThread, capfd: pytest.CaptureFixture[str]
) -> None:
    from headrace.cli.trace import live as trace_live

    shown = threading.Event()
    with connect(broker.bootstrap) as client, pytest.MonkeyPatch.context() as patch:

        def once(_: float) -> None:
            shown.set()
            raise KeyboardInterrupt

        patch.setattr(trace_live.time, "sleep", once)  # type: ignore[attr-defined]
        with pytest.raises(KeyboardInterrupt):
            trace_live.follow_topics(client, ["t"], 0.1, json=True)
    assert shown.is_set()
    lines = capfd.readouterr().out.splitlines()
    assert len(lines) == 2
    schema = json.loads((SCHEMAS / "trace-follow.json").read_text())
    for line in lines:
        check(schema, json.loads(line))


@pytest.mark.parametrize(
    ("words", "code", "exit_code"),
    [
        (("group", "list", "extra"), "USAGE", 2),
        (("topic", "describe"), "USAGE", 2),
        (("topic", "list", "-b", "127.0.0.1:1"), "UNREACHABLE", 3),
        (("consume", "x", "-b", "127.0.0.1:1"), "UNREACHABLE", 3),
        (("produce", "x", "/dev/null", "-b", "127.0.0.1:1"), "UNREACHABLE", 3),
        (("trace", "nothing"), "NOT_FOUND", 4),
        (("log", "verify", "/nowhere"), "USAGE", 2),
    ],
)
def test_an_error_that_ends_a_command_is_json_where_the_answer_would_be(
    words: tuple[str, ...], code: str, exit_code: int, capfd: pytest.CaptureFixture[str]
) -> None:
    assert command([*words, "--json"]) == exit_code
    said = capfd.readouterr()
    last = json.loads(said.err.splitlines()[-1])
    check(REMARK, last)
    assert (last["error"]["code"], last["error"]["exit_code"]) == (code, exit_code)
    assert "[" not in last["error"]["message"]
    assert command(list(words)) == exit_code
    assert capfd.readouterr().err.startswith("headrace: "), "and a line where it would be text"
