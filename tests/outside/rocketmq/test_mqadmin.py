"""RocketMQ's own mqadmin 5.5.0 against our broker: the recorded commands, results and columns.

`tests/golden/mqadmin-5.5.0.tsv` has what RocketMQ 5.5.0 answered: a result (ok, or the exception
and the code of the answer) and the columns of the first table. `mqadmin-differences.tsv` beside it
has the rows in which Headrace differs, each with its reason. Which queue a message is sent to is
random; two of the rows hold if queue 1 has one.
"""

import csv
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.outside.rocketmq.golden.comparison import (
    DIFFERENCES,
    differences,
    read_explained,
    shown_differences,
)
from tests.outside.rocketmq.golden.programs import mqadmin_lines, programs
from tests.outside.rocketmq.golden.record import (
    Recorded,
    compared,
    golden_by_client,
    recorded_of_headrace,
)
from tests.outside.rocketmq.jvm import has_maven
from tests.support.listed_differences import unexplained

GOLDEN = Path(__file__).parents[2] / "golden"
VERSION = "5.5.0"
DIFFERENCES_MAX = 40
OF_QUEUE_1 = "queryMsgByOffset -t AdmT -b {broker} -i 1 -o 0"
"""The command that shows whether queue 1 has a message."""
IF_QUEUE_1 = "if queue 1 has messages"
CLIENT, PUSHED = "admin5.5", "admin5.5-push220"
"""The recordings of the commands, and of those around a pushed reset."""

_EXCEPTION = re.compile(r"(?:! )?(?:java|org)\.[\w.]*?(\w*(?:Exception|Error))\b")
_CODE = re.compile(r"CODE: (\d+)")


class Outcome(NamedTuple):
    """The result and the columns of a command's output."""

    result: str
    columns: str


def rows(name: str) -> list[dict[str, str]]:
    """Return the rows of a table beside the golden files."""
    with (GOLDEN / name).open(encoding="utf-8", newline="") as table:
        return list(csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE))


def outcome(lines: list[str]) -> Outcome:
    """Return the result and the columns in a command's output."""
    result, code, columns = "ok", "", ""
    for line in lines:
        found = _EXCEPTION.match(line)
        if result == "ok" and found is not None:
            result = found[1]
        if result == "ok" and line.startswith("! "):
            result = line
        if result == "ok" and line.endswith("not exist."):
            result = "no such command"
        if not code and (named := _CODE.search(line)):
            code = " " + named[1]
        if not columns and line.startswith("#"):
            columns = re.sub(r" #", "|#", re.sub(r"  +", "|", line)).replace("||", "|")
            columns = columns.rstrip("| ")
    return Outcome(result + code, columns)


def test_an_outcome_is_a_result_a_code_and_columns() -> None:
    failed = [
        "org.apache.rocketmq.tools.command.SubCommandException: X command failed",
        "\tat org.apache.Y",
        "Caused by: org.apache.rocketmq.client.exception.MQClientException: CODE: 206  DESC: no",
    ]
    assert outcome(failed) == Outcome("SubCommandException 206", "")
    table = ["#Cluster Name     #Broker Name  #BID #Addr   ", "DefaultCluster  headrace-0"]
    assert outcome(table) == Outcome("ok", "#Cluster Name|#Broker Name|#BID|#Addr")
    assert outcome(["The sub command x not exist."]).result == "no such command"
    assert outcome(["! still running"]).result == "! still running"


@pytest.fixture(scope="module")
def recorded() -> Recorded:
    """The frames and the output of the recorded commands against our broker."""
    if not has_maven():
        pytest.skip("needs Maven and a JDK")
    return recorded_of_headrace(CLIENT, programs({})[CLIENT])


@pytest.fixture(scope="module")
def shown(recorded: Recorded) -> dict[str, list[str]]:
    """The output of each recorded command."""
    output = recorded.output
    assert "=== end" in output, output[-3000:]
    blocks = [block.splitlines()[1:] for block in output.split("=== ")[1:-1]]
    return dict(zip(mqadmin_lines(), blocks, strict=True))


def test_mqadmin_shows_what_it_shows_of_rocketmq(shown: dict[str, list[str]]) -> None:
    expected = {
        row["line"]: Outcome(row["result"], row["columns"] or "")
        for row in rows(f"mqadmin-{VERSION}.tsv")
    }
    explained = {row["line"]: row for row in rows("mqadmin-differences.tsv")}
    assert len(explained) <= DIFFERENCES_MAX
    assert all(row["reason"] for row in explained.values())
    if not any(shown[OF_QUEUE_1]):  # its messages are in other queues, as in RocketMQ's
        explained = {
            line: row for line, row in explained.items() if not row["reason"].startswith(IF_QUEUE_1)
        }
    found = {line: outcome(output) for line, output in shown.items()}
    wrong = [
        "\n".join([f"{line}: {found[line]}, expected {expected[line]}", *shown[line][:12]])
        for line in sorted(expected)
        if found[line] != expected[line] and line not in explained
    ]
    assert not wrong, "\n\n".join(wrong)
    assert {line: found[line].result for line in explained} == {
        line: row["result"] for line, row in explained.items()
    }, "a difference in the list is gone, or is another one"
    assert all(found[line].columns == expected[line].columns for line in explained)


def test_mqadmin_and_the_broker_send_each_other_what_they_send_at_rocketmq(
    recorded: Recorded,
) -> None:
    listed = read_explained(DIFFERENCES)
    found = differences(golden_by_client()[CLIENT], recorded.entries)
    left, unused = unexplained(found, listed)
    assert not left, shown_differences(left)
    assert not [row for row in unused if row.client.startswith("admin")]


def test_a_reset_is_pushed_as_by_rocketmq() -> None:
    if not has_maven():
        pytest.skip("needs Maven and a JDK")
    left = compared(
        recorded_of_headrace, PUSHED, golden_by_client(), read_explained(DIFFERENCES)
    ).left
    assert not left, shown_differences(left)
