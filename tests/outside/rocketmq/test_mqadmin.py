"""RocketMQ's own mqadmin 5.5.0 against our broker: the recorded commands, results and columns.

`tests/golden/mqadmin-5.5.0.tsv` has what RocketMQ 5.5.0 answered: a result (ok, or the exception
and the code of the answer) and the columns of the first table. `mqadmin-differences.tsv` beside it
has the rows in which Headrace differs, each with its reason; a reason with `if` holds sometimes.
"""

import csv
import re
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from headrace.testing import BrokerThread
from tests.outside.rocketmq.jvm import JVM, compiled, has_maven, libraries
from tests.support.rocketmq.client import RemotingClient
from tests.support.rocketmq.kit import SETTINGS, fields, made, port_of

GOLDEN = Path(__file__).parents[2] / "golden"
VERSION = "5.5.0"
DIFFERENCES_MAX = 40
MINUTES_MAX = 12
OPENS = [
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in ("java.nio", "sun.nio.ch", "java.lang", "java.util")
]

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
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The output of each recorded command against our broker."""
    if not has_maven():
        pytest.skip("needs Maven and a JDK")
    folder = tmp_path_factory.mktemp("mqadmin")
    path = compiled(folder, libraries(VERSION, "mqadmin.xml"), "AdminLines.java")
    with BrokerThread(SETTINGS) as broker:
        address = f"127.0.0.1:{port_of(broker)}"
        with RemotingClient(port_of(broker)) as client:
            made(client, "AdmViewed")
            viewed = fields(client.send("AdmViewed", b"viewed"))["msgId"]
        names = {"{address}": address, "{broker}": "headrace-0", "{id}": viewed}
        recorded = [row["line"] for row in rows(f"mqadmin-{VERSION}.tsv")]
        asked = {line: replaced(line, names) for line in recorded}
        played = subprocess.run(
            [*JVM, *OPENS, f"-Duser.home={folder}", "-cp", path, "AdminLines", address],
            input="".join(f"{line}\n" for line in asked.values()),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=MINUTES_MAX * 60, check=False, cwd=folder,
        )  # fmt: skip
    assert "=== end" in played.stdout, played.stdout[-3000:]
    blocks = {
        block.splitlines()[0]: block.splitlines()[1:] for block in played.stdout.split("=== ")[1:]
    }
    return {line: blocks[sent] for line, sent in asked.items()}


def replaced(line: str, names: dict[str, str]) -> str:
    """Return a recorded command with this broker's names."""
    for name, value in names.items():
        line = line.replace(name, value)
    return line


def test_mqadmin_shows_what_it_shows_of_rocketmq(shown: dict[str, list[str]]) -> None:
    expected = {
        row["line"]: Outcome(row["result"], row["columns"] or "")
        for row in rows(f"mqadmin-{VERSION}.tsv")
    }
    explained = {row["line"]: row for row in rows("mqadmin-differences.tsv")}
    assert len(explained) <= DIFFERENCES_MAX
    assert all(row["reason"] for row in explained.values())
    found = {line: outcome(output) for line, output in shown.items()}
    differing = {line: found[line] for line in expected if found[line] != expected[line]}
    unexplained = [
        "\n".join(
            [f"{line}: {expected[line]} was expected, {found[line]} found:", *shown[line][:12]]
        )
        for line in sorted(differing.keys() - explained.keys())
    ]
    assert not unexplained, "\n\n".join(unexplained)
    certain = {line for line, row in explained.items() if not row["reason"].startswith("if ")}
    assert certain <= differing.keys(), "a difference in the list is gone"
    for line in differing:
        assert found[line].result == explained[line]["result"], line
