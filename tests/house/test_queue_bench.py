"""The rows of queues in `make bench PEER=rabbitmq`: judged, bounded, and their load counted."""

import shutil
import subprocess
import sys

import pytest

from bench import process_tree, queue_load
from bench.queue_brokers import QueueHeadrace, queue_type
from bench.queue_rows import queue_rows
from bench.queue_sections import ceiling, queue_sections
from bench.report import Figure, Goal, print_table
from bench.subjects import OURS

_BUSY = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass\n"
_PARENT = f"""
import subprocess, sys, time
held = subprocess.Popen([sys.executable, "-c", "held = bytearray(b'x') * 50_000_000\\n" + '''
print("ready", flush=True)
import time
time.sleep(60)'''])
subprocess.run([sys.executable, "-c", {_BUSY!r}])
print("done", flush=True)
time.sleep(60)
"""


def test_rows_and_sections_of_queues_differ_and_all_have_a_bound() -> None:
    rows = [*queue_rows(False), *queue_rows(True)]
    sections = queue_sections(1.0)
    titles = [row.title for row in rows] + [section.title for section in sections]
    assert len(set(titles)) == len(titles)
    bounds = [row.seconds_max for row in rows] + [one.seconds_max for one in sections]
    assert all(0 < bound <= 900 for bound in bounds)
    assert all(row.goals for row in rows)


@pytest.mark.parametrize(
    ("wanted", "unit", "worse", "good"),
    [
        ("publish 16 B [", "messages/s", 1.19, 1.2),
        ("publish 16 B, confirmed", "CPU-us/message", 0.71, 0.7),
        ("publish 1 KB, confirmed", "messages/s", 1.19, 1.2),
        ("drain", "CPU-us/message", 0.71, 0.7),
        ("at once", "messages/s", 1.19, 1.2),
        ("5,000 msg/s", "p99 ms", 2.1, 2.0),
        ("fan-out", "messages/s", 0.99, 1.0),
        ("memory", "RSS MB", 0.51, 0.5),
    ],
)
@pytest.mark.parametrize("durable", [False, True])
def test_each_row_is_judged_in_both_pairings(
    durable: bool, wanted: str, unit: str, worse: float, good: float
) -> None:
    (row,) = [row for row in queue_rows(durable) if wanted in row.title]
    assert row.goals[unit].met(good)
    assert not row.goals[unit].met(worse)


def test_thousands_of_queues_are_judged() -> None:
    over_ten, over_one = queue_sections(1.0)[1:]
    assert not over_ten.goals["queues/s"].met(2.99)
    assert not over_ten.ceilings["up again, s"].met(5.1)
    assert not over_one.goals["queues/s"].met(0.99)


def test_both_brokers_are_asked_for_the_queue_that_is_as_durable() -> None:
    assert [queue_type(durable) for durable in (False, True)] == ["", "quorum"]


def test_ours_flushes_only_in_the_pairing_with_quorum_queues() -> None:
    for durable in (False, True):
        broker = QueueHeadrace(durable)
        broker.place()
        try:
            written = (broker.directory / "server.properties").read_text()
        finally:
            broker.remove()
        assert f"log.flush.on.ack={str(durable).lower()}\n" in written
        assert f"AMQP://{broker.amqp_address}" in written


def test_the_pairing_in_a_row_s_brackets_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    figure = Figure("row [quorum]", "s", Goal(most=1), values={"headrace": [1.0]})
    print_table([figure], {}, rounds=1, peer=None)
    assert "row [quorum]" in capsys.readouterr().out


def test_a_process_s_children_are_counted_those_that_ended_too() -> None:
    parent = subprocess.Popen([sys.executable, "-c", _PARENT], stdout=subprocess.PIPE, text=True)
    said = parent.stdout
    assert said is not None
    try:
        assert sorted([said.readline(), said.readline()]) == ["done\n", "ready\n"]
        tree = process_tree.process_tree(parent.pid)
        assert len(tree) == 2
        assert process_tree.cpu_seconds(tree) >= 0.3
        assert process_tree.memory_megabytes(tree) >= 50
        assert process_tree.memory_megabytes([parent.pid]) < 50
    finally:
        for process_id in reversed(process_tree.process_tree(parent.pid)):
            subprocess.run(["kill", "-KILL", str(process_id)], check=True)
        parent.wait()
        said.close()


@pytest.mark.slow  # builds a program in Go
@pytest.mark.skipif(shutil.which("go") is None, reason="the load generator is a program in Go")
def test_the_load_generator_says_what_it_sent_received_and_used() -> None:
    with queue_load.sink(16) as address:
        for asked in ({}, {"window": 100}):
            load = queue_load.run("publish", address, messages=5000, **asked)
            assert load.messages == 5000
            assert load.per_second > 1000
            assert 0 < load.cpu < 10
        assert queue_load.run("drain", address, messages=5000).messages == 5000
        assert queue_load.run("declare", address, messages=30, connections=3).messages == 30
        late = queue_load.run("latency", address, seconds=0.1, window=1000)
        assert late.messages == 500
    with pytest.raises(RuntimeError, match=r"load generator, publish: .*refused"):
        queue_load.run("publish", address, messages=1)


@pytest.mark.slow  # builds a program in Go
@pytest.mark.skipif(shutil.which("go") is None, reason="the load generator is a program in Go")
def test_the_generator_s_ceiling_is_a_section(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.queue_sections._SINK_SECONDS", 0.05)
    monkeypatch.setattr("bench.queue_sections._SINK_DRAINED", 1000)
    ((name, figures),) = ceiling([OURS], 1)
    assert name == "headrace"
    assert len(figures) == 6
