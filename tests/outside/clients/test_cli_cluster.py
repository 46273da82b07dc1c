"""`headrace cluster` against a real broker in its own process."""

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from headrace.cli.main import run
from tests.support.processes.process import HEADRACE, BrokerProcess


class Said(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Say = Callable[..., Said]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    directory = tmp_path_factory.mktemp("cli-cluster")
    with BrokerProcess(directory, broker_id=7, broker_rack="east") as started:
        yield started


@pytest.fixture
def say(
    broker: BrokerProcess, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Say:
    monkeypatch.setenv("HEADRACE_BOOTSTRAP", broker.bootstrap)

    def call(*words: str) -> Said:
        code = run(words)
        return Said(code, *capsys.readouterr())

    run(["topic", "create", "t", "-p", "2", "--if-not-exists"])
    capsys.readouterr()
    return call


def test_status_tells_whether_the_cluster_is_well_in_numbers(say: Say) -> None:
    told = say("cluster", "status")
    assert told.code == 0
    lines = told.out.splitlines()
    assert lines[0].startswith("cluster ")
    assert lines[0].endswith(": healthy")
    assert "  controller: 7" in lines
    assert "  brokers: 1" in lines
    assert "  brokers missing: none" in lines
    assert "  under-replicated partitions: 0" in lines
    answer = say("cluster", "status", "--json").json
    assert answer["healthy"] is True
    assert answer["partition_count"] == answer["replica_count"] >= 2


def test_the_controller_and_the_brokers_are_told_with_what_they_lead(
    say: Say, broker: BrokerProcess
) -> None:
    assert say("cluster", "controller").out == f"7 {broker.bootstrap}\n"
    told = {"controller": 7, "address": broker.bootstrap}
    assert say("cluster", "controller", "--json").json == told
    (row,) = say("cluster", "brokers", "--json").json
    assert (row["broker"], row["address"], row["rack"]) == (7, broker.bootstrap, "east")
    assert row["controller"] is True
    assert row["leader_count"] == row["replica_count"] >= 2
    assert row["bytes"] >= 0
    head, line = say("cluster", "brokers").out.splitlines()
    assert head.split()[:4] == ["BROKER", "ADDRESS", "RACK", "CONTROLLER"]
    assert line.split()[:4] == ["7", broker.bootstrap, "east", "yes"]


def test_partitions_are_told_row_by_row_and_only_those_asked_for(say: Say) -> None:
    head, *lines = say("cluster", "partitions", "t").out.splitlines()
    assert head.split() == (
        ["TOPIC", "PARTITION", "LEADER", "EPOCH", "REPLICAS", "ISR", "LAG", "BYTES", "STATUS"]
    )
    assert [line.split() for line in lines] == [
        ["t", str(index), "7", "0", "7", "7", "0", "0", "-"] for index in range(2)
    ]
    found = say("cluster", "partitions", "t", "--json").json
    assert [row["partition"] for row in found] == [0, 1]
    assert found[0]["lags"] == [{"broker": 7, "lag": 0}]
    assert found[0]["preferred_leader"] is True
    for flag in ("--under-replicated", "-u", "--offline", "--under-min-isr", "--not-preferred"):
        assert say("cluster", "partitions", flag) == (0, "", "no partition matches\n")
        assert say("cluster", "partitions", flag, "--json").json == []


def test_a_topic_that_is_not_there_is_said_on_one_line(say: Say) -> None:
    told = say("cluster", "partitions", "tt")
    assert told.code == 4
    assert told.err.startswith("headrace: there is no topic tt; did you mean t?")
    assert say("cluster", "elect-leaders", "nope").code == 4


def test_elections_that_nobody_needs_are_said_to_be_so(say: Say) -> None:
    assert say("cluster", "elect-leaders") == (0, "", "no election is needed\n")
    told = say("cluster", "elect-leaders", "t:1")
    assert told == (0, "t:1 is already led by the preferred replica\n", "")
    told = say("cluster", "elect-leaders", "t", "--json")
    assert [row["error"]["code"] for row in told.json] == ["ELECTION_NOT_NEEDED"] * 2
    assert ([row["elected"] for row in told.json], told.code) == ([False] * 2, 0)
    assert say("cluster", "elect-leaders", "t:9").err == (
        "headrace: t:9: topic t has 2 partitions\n"
    )
    told = say("cluster", "elect-leaders", "--unclean")
    assert (told.code, told.err) == (
        2, "headrace: --unclean loses records: pass the topics or partitions\n",
    )  # fmt: skip


NO_THROTTLE = "--throttle must be at least 1 byte per second, and needs moves to start"
NO_MOVE = "must be TOPIC:PARTITION=BROKER,BROKER, as t:0=1,2,3, or TOPIC=BROKER,BROKER"


def test_moves_are_begun_listed_called_off_and_refused_each_with_a_line(say: Say) -> None:
    assert say("cluster", "reassign", "t:0=7") == (0, "t:0 moves to 7\n", "")
    assert say("cluster", "reassign", "t=7") == (0, "t:0 moves to 7\nt:1 moves to 7\n", "")
    assert say("cluster", "reassign", "--list") == (0, "", "no partition is being moved\n")
    assert say("cluster", "reassign", "--list", "--json").json == []
    told = say("cluster", "reassign", "t:0=7", "t:1=7,8")
    assert told.code == 1
    assert told.out == "t:0 moves to 7\n"
    lines = told.err.splitlines()
    assert lines[0].startswith("headrace: t:1: The manual partition assignment includes broker 8")
    assert lines[1] == "headrace: 1 partition of 2 failed"
    told = say("cluster", "reassign", "--cancel", "t:0")
    assert (told.code, "NO_REASSIGNMENT_IN_PROGRESS" in told.err) == (1, True)


def test_a_throttle_is_set_with_a_move_and_taken_away_once_it_is_over(say: Say) -> None:
    told = say("cluster", "reassign", "t:0=7", "--throttle", "5000")
    assert (told.code, told.out) == (0, "t:0 moves to 7\n")
    assert told.err.startswith("moves copy at most 5000 bytes per second on each of the brokers 7;")
    words = ("topic", "describe", "t", "--json")
    assert "0:7" in say(*words).out
    told = say("cluster", "reassign", "--verify")
    assert (told.code, told.out) == (0, "")
    assert told.err.splitlines() == [
        "no partition is being moved",
        "removed the throttle of topic t",
        "removed the throttle of broker 7",
    ]
    assert "0:7" not in say(*words).out
    assert say("cluster", "reassign", "--verify", "t").err == "no partition is being moved\n"
    assert say("cluster", "reassign", "--verify", "nope").code == 4


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["t"], f"t: {NO_MOVE}"),
        (["t:0="], f"t:0=: {NO_MOVE}"),
        (["=1"], f"=1: {NO_MOVE}"),
        (["t:x=1"], "t:x: must be TOPIC:PARTITION"),
        (["t:5=7"], "t:5: topic t has 2 partitions"),
        ([], "pass the moves as TOPIC:PARTITION=1,2,3; or pass --list"),
        (["--cancel", "t"], "t: pass the partition too, as t:0"),
        (["--list", "t:0=1"], "--list cannot be combined with partitions, --cancel or --verify"),
        (["--throttle", "0", "t:0=7"], NO_THROTTLE),
        (["--throttle", "5", "--verify"], NO_THROTTLE),
        (["--throttle", "5", "--cancel", "t:0"], NO_THROTTLE),
        (
            ["--verify", "--cancel", "t:0"],
            "--cancel removes the throttles itself: omit --verify",
        ),
    ],
)
def test_words_that_name_no_move_are_refused_with_how_they_are_written(
    say: Say, words: list[str], text: str
) -> None:
    assert say("cluster", "reassign", *words) == (2, "", f"headrace: {text}\n")


def test_what_is_watched_is_shown_again_until_it_is_interrupted(
    say: Say, broker: BrokerProcess
) -> None:
    words = ["cluster", "status", "--json", "--watch", "0.05", "-b", broker.bootstrap]
    with subprocess.Popen(
        [HEADRACE, *words],
        stdout=subprocess.PIPE,
        text=True,
        # Who runs the tests in the background has them, and all they start, ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        assert process.stdout is not None
        shown = [json.loads(process.stdout.readline()) for _ in range(3)]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)  # what it still says is read: it must not wait for that
        assert process.returncode == 130
    assert {row["controller"] for row in shown} == {7}
    assert say("cluster", "status", "--watch", "0").code == 2


def test_no_broker_is_one_line_and_its_own_exit_code(say: Say) -> None:
    told = say("cluster", "status", "-b", "127.0.0.1:1", "--request-timeout", "1")
    assert told.code == 3
    assert told.err.startswith("headrace: cannot connect to 127.0.0.1:1")
    assert len(told.err.splitlines()) == 1


def test_a_topic_is_followed_with_a_line_for_each_change(say: Say, broker: BrokerProcess) -> None:
    say("topic", "create", "followed", "--if-not-exists")
    words = ["trace", "--follow", "followed", "--json", "--interval", "0.05"]
    with subprocess.Popen(
        [HEADRACE, *words, "-b", broker.bootstrap],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        subprocess.run(
            [HEADRACE, "produce", "followed", "-b", broker.bootstrap],
            input="one\ntwo\n", text=True, check=True,
        )  # fmt: skip
        second = first
        while second["high_watermark"] < 2 and (line := process.stdout.readline()):
            second = json.loads(line)  # the end may be seen before it holds
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 130
    shown = ("topic", "partition", "leader", "isr", "high_watermark", "end_offset", "lags")
    assert [first[key] for key in shown] == [
        "followed", 0, 7, [7], 0, 0, [{"broker": 7, "lag": 0}],
    ]  # fmt: skip
    assert second["high_watermark"] == 2
    assert "HW moves by 2" in second["events"]
    assert say("trace", "--follow", "nope").code == 4
