"""`headrace group reset` by kafka-consumer-groups' flags, and `delete-offsets`."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from headrace.client.consumer.member import Member
from headrace.client.sync import connect, run
from headrace.terminal.failure import UsageError
from headrace.terminal.offset_positions import parse_duration, parse_utc
from headrace.testing import BrokerThread
from tests.support.processes.cli_kit import Asked, Says, asker, sayer, send


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    with BrokerThread() as started:
        started.create_topics("orders", partitions=2)
        started.create_topics("plain")
        send(started.bootstrap, "orders", 10, time=1000)
        send(started.bootstrap, "orders", 6, partition=1, time=1000)
        yield started


@pytest.fixture
def says(broker: BrokerThread, capsys: pytest.CaptureFixture[str]) -> Says:
    return sayer(broker.bootstrap, capsys)


@pytest.fixture
def asked(says: Says) -> Asked:
    asker(says)("group seek", "g", "--to", "3", "--topics", "orders")
    return asker(says)


def offsets(asked: Asked, group: str = "g") -> dict[tuple[str, int], int]:
    _, (found,) = asked("group describe", group)
    return {
        (row["topic"], row["partition"]): row["committed_offset"] for row in found["partitions"]
    }


@pytest.mark.parametrize(("flags", "expected"), [
    (["--to-earliest"], [0, 0]),
    (["--to-latest"], [10, 6]),
    (["--to-current"], [3, 3]),
    (["--to-offset", "5"], [5, 5]),
    (["--to-offset", "8"], [8, 6]),
    (["--to-datetime", "1970-01-01T00:00:01.004"], [4, 4]),
    (["--to-datetime", "1970-01-01T01:00:01.004+01:00"], [4, 4]),
    (["--by-duration", "PT1H"], [10, 6]),
    (["--shift-by", "2"], [5, 5]),
    (["--shift-by", "-2"], [1, 1]),
    (["--shift-by", "-9"], [0, 0]),
])  # fmt: skip
def test_each_way_to_say_where_to_moves_there_once_it_is_executed(
    flags: list[str], expected: list[int], asked: Asked
) -> None:
    code, planned = asked("group reset", "g", *flags, "--all-topics")
    assert (code, planned["dry_run"]) == (0, True)
    assert [row["to_offset"] for row in planned["partitions"]] == expected
    assert set(offsets(asked).values()) == {3}, "only shown"
    _, done = asked("group reset", "--group", "g", *flags, "--all-topics", "--execute")
    assert done == {**planned, "dry_run": False}
    assert list(offsets(asked).values()) == expected


def test_only_the_partitions_named_are_moved(asked: Asked) -> None:
    asked("group reset", "g", "--to-latest", "--topic", "orders:1", "--execute")
    assert offsets(asked) == {("orders", 0): 3, ("orders", 1): 6}
    asked("group reset", "new", "--to-latest", "--topic", "orders", "--execute")
    assert offsets(asked, "new") == {("orders", 0): 10, ("orders", 1): 6}


def test_what_is_exported_can_be_read_back(asked: Asked, says: Says, tmp_path: Path) -> None:
    plan = tmp_path / "plan.csv"
    _, text, _ = says("group", "reset", "g", "--to-offset", "5", "--all-topics", "--export")
    assert text == "g,orders,0,5\ng,orders,1,5\n"
    plan.write_text(f"{text}other,orders,0,1\n")
    asked("group reset", "g", "--from-file", str(plan), "--execute")
    assert set(offsets(asked).values()) == {5}
    plan.write_text("orders,1,2\n")
    asked("group reset", "g", "--from-file", str(plan), "--execute")
    assert list(offsets(asked).values()) == [5, 2]


@pytest.mark.parametrize(("words", "code", "said"), [
    ("reset g --all-topics", 2, "pass exactly one of"),
    ("reset g --to-latest --to-earliest --all-topics", 2, "pass exactly one of"),
    ("reset g --to-latest", 2, "pass the partitions: --topic topic:0,1, or --all-topics"),
    ("reset g --to-latest --all-topics --topic orders", 2, "pass the partitions"),
    ("reset --to-latest --all-topics", 2, "name the group"),
    ("reset h --to-latest --all-topics", 4, "there is no group h"),
    ("reset g --to-latest --all-topics --execute --dry-run", 2, "cannot be combined"),
    ("reset g --to-latest --topic orders:9", 2, "there is no partition 9"),
    ("reset g --to-offset -1 --all-topics", 2, "--to-offset"),
    ("delete-offsets g", 2, "pass the offsets to delete"),
    ("delete-offsets g --topic orders", 2, "pass --yes to confirm"),
    ("delete-offsets h --topic orders --yes", 4, "there is no group h"),
])  # fmt: skip
def test_a_slip_is_named_and_nothing_is_moved(
    words: str, code: int, said: str, asked: Asked, says: Says
) -> None:
    found = says("group", *words.split())
    assert (found[0], said in found[2]) == (code, True), found
    assert set(offsets(asked).values()) == {3}


@pytest.mark.parametrize("text", ["orders,0", "orders,x,1", "orders,0,-1", "", "h,orders,0,1"])
def test_a_file_that_says_nothing_is_refused(text: str, asked: Asked, tmp_path: Path) -> None:
    plan = tmp_path / "plan.csv"
    plan.write_text(text)
    code, answer = asked("group reset", "g", "--from-file", str(plan), "--execute")
    assert (code, answer["error"]["code"]) == (2, "USAGE")


def test_a_group_with_members_is_not_moved(asked: Asked, broker: BrokerThread) -> None:
    with connect(broker.bootstrap) as client:
        member = Member(client, "g", ["orders"])
        run(member.join())
        code, answer = asked("group reset", "g", "--to-latest", "--all-topics", "--execute")
        assert (code, "has 1 member; stop them first" in answer["error"]["message"]) == (1, True)
        assert asked("group reset", "g", "--to-latest", "--all-topics")[0] == 0, "only shown"
        run(member.leave())


def test_offsets_of_topics_can_be_forgotten(asked: Asked) -> None:
    asked("group reset", "g", "--to-earliest", "--topic", "plain", "--execute")
    _, planned = asked("group delete-offsets", "g", "--topic", "orders:1", "-n")
    assert planned["partitions"] == [{"topic": "orders", "partition": 1, "offset": 3}]
    assert len(offsets(asked)) == 3
    asked("group delete-offsets", "g", "--topic", "orders:1", "--yes")
    assert offsets(asked) == {("orders", 0): 3, ("plain", 0): 0}
    assert asked("group delete-offsets", "g", "--topic", "orders:1", "--yes")[1]["partitions"] == []


@pytest.mark.parametrize(("text", "expected"), [
    ("P1D", timedelta(days=1)), ("PT30M", timedelta(minutes=30)),
    ("p1dt2h3m4.5s", timedelta(days=1, hours=2, minutes=3, seconds=4.5)),
])  # fmt: skip
def test_a_duration_is_read(text: str, expected: timedelta) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize("text", ["", "P", "PT", "1h", "-PT1H", "P1M", "P9999999999999D"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--by-duration"):
        parse_duration(text)


def test_a_time_without_zone_is_utc_as_in_kafkas_command() -> None:
    assert parse_utc("1970-01-01T00:00:01") == 1000
    with pytest.raises(UsageError, match="--to-datetime"):
        parse_utc("yesterday")
