"""Stores of real brokers are moved by the documented commands, and their real clients go on.

`java/Moved.java` fills a store on RocketMQ's own broker, with groups in the middle of their queues,
messages sent back, delayed and undecided. The same program then goes on at Headrace.
"""

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from headrace.testing import BrokerThread
from tests.outside.rocketmq.jvm import JVM, compiled, has_maven, libraries
from tests.outside.rocketmq.peer import RocketMQ
from tests.support.processes.network_namespace import NetworkNamespace, can_run
from tests.support.processes.process import headrace
from tests.support.rocketmq.kit import SETTINGS, port_of

pytestmark = pytest.mark.slow
COMMAND = (sys.executable, "-m", "headrace.cli.main", "rocketmq", "move")
RETRIED, DEAD, NEW, QUEUES = 4, 4, 2, 4
REAL_SETTINGS: dict[str, Any] = {
    "mappedFileSizeCommitLog": 1 << 20,
    "mappedFileSizeConsumeQueue": 20_000,
    "transactionCheckInterval": 4000,
    # Above transactionOpBatchInterval: below, decided messages are undecided again in the store.
    "transactionTimeOut": 4000,
}
"""Small files, so that the store has several, and questions soon."""


class Got(NamedTuple):
    """A message that a consumer got."""

    group: str
    queue: int
    offset: int
    body: str
    times: int


def got(output: str) -> list[Got]:
    """Return the messages that consumers got, in order."""
    words = [line.split() for line in output.splitlines() if line.startswith("GOT ")]
    return [
        Got(group, int(queue), int(offset), body, int(times))
        for _, group, _, queue, offset, body, times in words
    ]


def sent(output: str, topic: str) -> set[str]:
    """Return the bodies that were sent to a topic."""
    words = (line.split() for line in output.splitlines() if line.startswith("SENT "))
    return {each[4] for each in words if each[1] == topic}


def java(classes: str, home: Path) -> list[str]:
    """Return the command that runs the program."""
    return [*JVM, f"-Duser.home={home}", "-cp", classes, "Moved"]


def moved(store: Path, data: Path) -> dict[str, Any]:
    """Move a store by the command; kill -9 it in between; return the plan."""
    words = [*COMMAND, str(store), "--data", str(data), "--json"]
    planned = subprocess.run([*words, "--dry-run"], capture_output=True, text=True, check=True)
    with subprocess.Popen([*words, "--yes"], stdout=subprocess.DEVNULL) as killed:
        while not list(data.parent.glob("data.moving/*-0/*.log")) and killed.poll() is None:
            time.sleep(0.01)
        killed.send_signal(signal.SIGKILL)
    assert not data.exists()
    subprocess.run([*words, "--yes"], check=True, stdout=subprocess.DEVNULL)
    plan: dict[str, Any] = json.loads(planned.stdout)
    return plan


@pytest.fixture(params=["5.5.0", "4.9.7"])
def version(request: pytest.FixtureRequest) -> str:
    """A version of the broker and of its clients."""
    if not has_maven():
        pytest.skip("needs Maven and a JDK")
    if not can_run():
        pytest.skip("needs unshare and nsenter: RocketMQ 4.9 listens on all addresses")
    return str(request.param)


@contextmanager
def real_broker(version: str, folder: Path) -> Iterator[RocketMQ]:
    """Run RocketMQ's servers with their files in a folder."""
    with (
        NetworkNamespace() as alone,
        RocketMQ(folder, version, alone.host, **REAL_SETTINGS) as real,
    ):
        yield real


@pytest.mark.timeout(600)
def test_every_group_goes_on_at_its_next_message(version: str, tmp_path: Path) -> None:
    timers = 3 if version.startswith("5") else 0
    classes = compiled(tmp_path / "classes", libraries(version), "Kit.java", "Moved.java")
    program = java(classes, tmp_path)
    with real_broker(version, tmp_path / "real") as real:
        before = real.run([*program, real.address.names, "prepare", version], 180)
    plan = moved(real.store, tmp_path / "data")
    assert (plan["delayed_messages"], plan["undecided_messages"]) == (RETRIED + 3 + timers, 3)
    assert (plan["left_out"], plan["damaged_messages"]) == ([], 0)
    read = [each for each in got(before) if each.group == "CG_half"]
    left = len(sent(before, "Orders")) - len(read)
    count = left + NEW * QUEUES + RETRIED + DEAD + 3 + timers + 3
    with BrokerThread(SETTINGS, directory=str(tmp_path / "data")) as broker:
        address = f"127.0.0.1:{port_of(broker)}"
        words = [*program, address, "resume", str(count), "150"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=240, check=False)
        after = done.stdout
        assert done.returncode == 0, after[-3000:] + done.stderr[-3000:]
        headrace(broker.bootstrap, "rocketmq", "offsets", "export", str(tmp_path / "exported"))
    check_counts(before, after, timers)
    check_export(version, tmp_path, program, before + after)


def check_counts(before: str, after: str, timers: int) -> None:
    """Hold each group to its messages: all, once, from its next one on."""
    first, second = got(before), got(after)

    def bodies(group: str, where: list[Got]) -> Counter[str]:
        return Counter(each.body for each in where if each.group == group)

    orders = sent(before, "Orders") | sent(after, "Orders")
    half = bodies("CG_half", first) + bodies("CG_half", second)
    assert half == Counter(orders)
    assert bodies("CG_half", first)
    for queue in range(QUEUES):
        ended = [each.offset for each in first if (each.group, each.queue) == ("CG_half", queue)]
        began = [each.offset for each in second if (each.group, each.queue) == ("CG_half", queue)]
        assert min(began) == max(ended, default=-1) + 1
    jobs = sent(before, "Jobs")
    assert bodies("CG_jobs", first) == Counter(jobs)
    assert bodies("CG_jobs", second) == Counter(each for each in jobs if each.endswith("-3"))
    assert {each.times for each in second if each.group == "CG_jobs"} == {1}
    assert bodies("CG_dead", second) == Counter(each for each in jobs if each.endswith("-4"))
    later = [f"level-{number}" for number in range(2, 5)]
    later += [f"timer-{number}" for number in range(2, 2 + timers)]
    assert bodies("CG_later", second) == Counter(later)
    assert bodies("CG_later", first) + bodies("CG_later", second) == Counter(sent(before, "Later"))
    assert set(bodies("CG_paid", first)) == {"first-Paid", "commit-0", "commit-1"}
    assert bodies("CG_paid", second) == Counter(["open-0", "open-1", "commit-new"])


def check_export(version: str, folder: Path, program: list[str], output: str) -> None:
    """Hold the original, started on exported files, to the offsets that groups have."""
    config = folder / "back" / "store" / "config"
    config.mkdir(parents=True)
    for file in (folder / "exported").iterdir():
        (config / file.name).write_bytes(file.read_bytes())
    ends: dict[int, int] = {}
    for each in got(output):
        if each.group == "CG_half":
            ends[each.queue] = max(ends.get(each.queue, 0), each.offset + 1)
    with real_broker(version, folder / "back") as real:
        answered = real.run([*program, real.address.names, "offsets", "CG_half", "Orders"], 60)
    words = [line.split() for line in answered.splitlines() if line.startswith("OFFSET ")]
    assert {int(queue): int(offset) for *_, queue, offset in words} == ends
