"""RocketMQ's clients and Headrace send each other what they and RocketMQ 5.5.0 send.

`tests/golden/rocketmq-5.5.0-remoting.jsonl.gz` was recorded from RocketMQ 5.5.0; the same programs
are recorded against Headrace and compared (`comparison`). `rocketmq-differences.tsv` beside it has
the differences, each with its reason; a reason that begins with `if` holds sometimes.
"""

import shutil
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from headrace.wire.rocketmq.commands import encode_command
from headrace.wire.rocketmq.frames import Serialization
from tests.outside.rocketmq.golden.comparison import (
    DIFFERENCES,
    Explained,
    differences,
    read_explained,
    shown_differences,
)
from tests.outside.rocketmq.golden.programs import Program, programs
from tests.outside.rocketmq.golden.record import (
    Compared,
    compared,
    golden_by_client,
    recorded_of_headrace,
)
from tests.outside.rocketmq.golden.recording import RESPONSE, Entry
from tests.outside.rocketmq.jvm import has_maven, libraries
from tests.support.listed_differences import unexplained

ROWS_MAX = 40
BY_MQADMIN = ("admin5.5", "admin5.5-push220")
"""Recordings that `tests/outside/rocketmq/test_mqadmin.py` compares."""
NEEDED = ("go", "npm")
AT_ONCE = 2
"""Programs that run at one time; most of the time they wait."""
SECONDS_MAX = 1800


@pytest.fixture(scope="module")
def golden() -> dict[str, list[Entry]]:
    """The golden recording, by the client."""
    return golden_by_client()


@pytest.fixture(scope="module")
def rows() -> list[Explained]:
    """The explained differences."""
    return read_explained(DIFFERENCES)


def test_each_difference_has_one_reason(rows: list[Explained]) -> None:
    assert len(rows) <= ROWS_MAX
    assert all(row.reason for row in rows)
    assert len({row.reason for row in rows}) == len(rows)


def test_a_recording_does_not_differ_from_itself(golden: dict[str, list[Entry]]) -> None:
    entries = [entry for found in golden.values() for entry in found]
    assert differences(entries, entries) == []


def test_each_recording_has_a_program(golden: dict[str, list[Entry]]) -> None:
    assert golden.keys() == {client for run in programs(golden) for client in run.split()}


def clients(golden: dict[str, list[Entry]]) -> dict[str, Program]:
    """Return the programs that are compared here."""
    return {name: program for name, program in programs(golden).items() if name not in BY_MQADMIN}


@pytest.fixture(scope="module")
def played(
    golden: dict[str, list[Entry]], rows: list[Explained]
) -> Iterator[dict[str, Future[Compared]]]:
    """The comparison of each client."""
    if not has_maven() or not all(map(shutil.which, NEEDED)):
        pytest.skip(f"needs Maven, a JDK, {', '.join(NEEDED)}")
    for version in ("5.5.0", "4.9.7"):
        libraries(version)  # fetched once, before two programs want them
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {
            run: pool.submit(compared, recorded_of_headrace, run, golden, rows)
            for run in clients(golden)
        }


@pytest.mark.slow
@pytest.mark.timeout(SECONDS_MAX)
@pytest.mark.parametrize("run", sorted(clients({})))
def test_a_client_meets_what_it_meets_at_rocketmq(
    run: str, played: dict[str, Future[Compared]]
) -> None:
    recorded, _, left = played[run].result()
    assert not left, f"{shown_differences(left)}\n\n{recorded.output[-3000:]}"


@pytest.mark.slow
@pytest.mark.timeout(SECONDS_MAX)
def test_each_listed_difference_is_found(
    played: dict[str, Future[Compared]], rows: list[Explained]
) -> None:
    found = [each for run in played.values() for each in run.result().found]
    of_clients = [row for row in rows if not row.client.startswith("admin")]
    assert unexplained(found, of_clients)[1] == []


def changed(entry: Entry, **parts: object) -> Entry:
    """Return a frame with another header or body."""
    command = entry.command._replace(**parts)  # type: ignore[arg-type]
    raw = b"".join(encode_command(command, Serialization.JSON))
    return entry._replace(raw=raw, size=len(raw))


@pytest.mark.parametrize(
    ("scenario", "request_code", "parts", "expected"),
    [
        ("max-30", 30, {"code": 1}, ("code", "SUCCESS", "SYSTEM_ERROR")),
        ("max-30", 30, {"fields": {"offset": "11"}}, ("ext.offset", "12", "11")),
        ("query-14-unknown-topic", 14, {"remark": "no"}, ("remark", "Not found*", "no")),
        ("consumer-list-38", 38, {"body": b'{"consumerIdList":[]}'}, ("body*", "*", "*")),
        ("pull-max-1", 11, {"body": b""}, ("body", "messages", "-")),
        ("max-30", 30, None, ("frames", "1", "0")),
    ],
)
def test_a_change_in_a_recording_is_a_difference(
    golden: dict[str, list[Entry]],
    scenario: str,
    request_code: int,
    parts: dict[str, object] | None,
    expected: tuple[str, str, str],
) -> None:
    expected_entries, entries = golden["raw-json"], []
    for entry in expected_entries:
        is_meant = entry.scenario.endswith(f"/{scenario}") and entry.direction == RESPONSE
        if not is_meant or entry.request != request_code:
            entries.append(entry)
        elif parts is not None:
            entries.append(changed(entry, **parts))
    found = differences(expected_entries, entries)
    assert {each.scenario for each in found} == {scenario}
    row = Explained("raw-*", scenario, "*", *expected, reason="changed here")
    assert any(row.matches(each) for each in found), found
