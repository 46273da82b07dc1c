"""Where groups of RocketMQ's own consumer begin, and what resets do: as on RocketMQ 5.5.0.

`java/FirstStart.java` plays the cases; `tests/golden/first-start-5.5.0.tsv` has what happened on
RocketMQ 5.5.0. Counts of a load and times are left out. The cases with a second broker and with
files that are deleted or dropped from the page cache need what Headrace has in another form.
"""

import csv
import re
import subprocess
from pathlib import Path

import pytest

from headrace.testing import BrokerThread
from tests.outside.rocketmq.jvm import JAVA, JVM, has_maven, libraries
from tests.support.rocketmq.kit import SETTINGS, port_of

GOLDEN = Path(__file__).parents[2] / "golden" / "first-start-5.5.0.tsv"
CASES = (
    "young", "empty", "emptyrace", "oldgroup", "expand", "reset", "reset2", "switch", "switch2",
    "switch3", "bcast",
)  # fmt: skip
MINUTES_MAX = 25
DIFFERENCES = {
    ("reset to 0, no force, online", "resetOffsetByTime 0"): "answer [0, 0], delivered again 20",
}
"""RocketMQ 5.5.0 delivers it, too, but after the case's time: its parked pull is not woken."""

Row = tuple[str, str, str, str]


def normal(text: str) -> str:
    """Return an outcome without counts of a load and times."""
    text = text.replace("headrace-0", "{broker}").replace("_OFFSET", "")
    text = re.sub(r"sent \d+, \d+ of them to queues 3-5", "under load", text)
    return re.sub(r", first after \d+ ms", "", re.sub(r"within \d+ ms", "soon", text))


def expected_rows() -> list[Row]:
    """Return the rows of RocketMQ 5.5.0, but for those in which Headrace differs."""
    with GOLDEN.open(encoding="utf-8", newline="") as table:
        rows = list(csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [
        (
            row["case"], row["there"], row["setting"],
            DIFFERENCES.get((row["case"], row["setting"]), row["outcome"]),
        )
        for row in rows
    ]  # fmt: skip


@pytest.mark.slow
def test_groups_begin_and_are_reset_as_on_rocketmq(tmp_path: Path) -> None:
    if not has_maven():
        pytest.skip("needs Maven and a JDK")
    libs = libraries("5.5.0", "mqadmin.xml")
    sources = [JAVA / "shim" / "MM.java", JAVA / "FirstStart.java"]
    subprocess.run(
        ["javac", "-nowarn", "-d", tmp_path, "-cp", f"{libs}/*", *sources],
        check=True, timeout=300, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    with BrokerThread(SETTINGS) as broker:
        address = f"127.0.0.1:{port_of(broker)}"
        played = subprocess.run(
            [
                *JVM, f"-Duser.home={tmp_path}", f"-Dns={address}",
                "-Drocketmq.client.rebalance.waitInterval=2000", "-cp", f"{libs}/*:{tmp_path}",
                "FirstStart", "ours", "DefaultCluster", address, *CASES,
            ],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=MINUTES_MAX * 60, check=False, cwd=tmp_path,
        )  # fmt: skip
    found = []
    for line in played.stdout.splitlines():
        if line.startswith("| ours "):
            _, case, there, setting, outcome = (
                normal(cell.strip()) for cell in line.strip("| ").split(" | ")
            )
            found.append((case, there, setting, outcome))
    assert found == expected_rows(), played.stdout[-6000:]
