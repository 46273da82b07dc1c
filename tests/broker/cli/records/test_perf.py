"""`headrace perf`: what it counts is what is there."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.cli.main import run as command
from headrace.terminal.perf_figures import Figures
from headrace.testing import BrokerThread


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    with BrokerThread() as started:
        started.create_topics("t", partitions=2)
        yield started


@pytest.mark.parametrize("acks", ["all", "1", "0"])
def test_what_was_produced_is_counted_and_consumed(
    acks: str, broker: BrokerThread, capfd: pytest.CaptureFixture[str]
) -> None:
    where = ("t", "-b", broker.bootstrap, "--json")
    words = ("--records", "3000", "--record-size", "50", "--acks", acks, "-z", "lz4")
    assert command(["perf", "produce", *where, *words]) == 0
    sent = json.loads(capfd.readouterr().out)
    assert (sent["records"], sent["bytes"]) == (3000, 150_000)
    assert 0 <= sent["latency_ms"]["p50"] <= sent["latency_ms"]["p999"] <= sent["latency_ms"]["max"]
    assert command(["perf", "consume", *where, "--timeout", "2"]) == 0
    said = capfd.readouterr()
    assert json.loads(said.out)["records"] == 3000
    assert "no record arrived for 2 s" in said.err


def test_throughput_is_bounded_and_latency_does_not_wait_for_the_next_records(
    broker: BrokerThread, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ("--records", "10", "--throughput", "10", "--json", "-b", broker.bootstrap)
    assert command(["perf", "produce", "t", *words]) == 0
    sent = json.loads(capfd.readouterr().out)
    assert sent["seconds"] >= 0.9
    assert sent["latency_ms"]["p50"] < 900, "not told together, when all were sent"
    assert command(["perf", "produce", "t", "--records", "100", "-b", broker.bootstrap]) == 0
    first, second = capfd.readouterr().out.splitlines()
    assert first.startswith("100 records acknowledged in ")
    assert second.startswith("latency in ms: mean ")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("produce", "t", "--records", "0"), "--records 0: must be at least 1"),
        (
            ("produce", "t", "--throughput", "0"),
            "--throughput 0: must be more than 0, or -1 for no limit",
        ),
        (("produce", "t", "--throughput", "nan"), "--throughput nan: must be more than 0"),
        (("produce", "t", "--record-size", "99999999"), "--record-size 99999999: at most 67108864"),
        (("consume", "t", "--timeout", "0"), "--timeout 0: must be more than 0"),
    ],
)
def test_flags_that_make_no_sense_are_refused(
    words: tuple[str, ...], line: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert command(["perf", *words, "-b", "127.0.0.1:1"]) == 2
    assert capfd.readouterr().err.startswith(f"headrace: {line}")


def test_percentiles_are_those_of_all_records_and_unknown_without_any() -> None:
    figures = Figures("read", "fetch")
    assert figures.as_json()["latency_ms"] == dict.fromkeys(
        ("mean", "p50", "p95", "p99", "p999", "max")
    )
    figures.add(98, 980, 1.0)
    figures.add(1, 10, 20.0)
    figures.add(1, 10, 300.0)
    figures.add(0, 10, 9000.0)
    assert [figures.percentile(each) for each in (50, 98, 99, 99.9, 100)] == [1, 1, 20, 300, 300]
    assert (figures.records, figures.bytes) == (100, 1000)
    assert "mean 4.2, p50 1, p95 1, p99 20, p99.9 300, max 300" in figures.latencies()


def test_disk_shows_topics_and_directories_the_largest_first(
    broker: BrokerThread, capfd: pytest.CaptureFixture[str]
) -> None:
    broker.create_topics("small")
    command(["perf", "produce", "t", "--records", "5000", "-b", broker.bootstrap])
    capfd.readouterr()
    assert command(["disk", "--json", "-b", broker.bootstrap]) == 0
    answer = json.loads(capfd.readouterr().out)
    large, small = answer["topics"]
    assert (large["topic"], small) == (
        "t", {"topic": "small", "bytes": 0, "partition_count": 1, "replica_count": 1},
    )  # fmt: skip
    logs = list(Path(broker.directory).glob("t-*/*.log"))
    assert large["bytes"] == sum(path.stat().st_size for path in logs) > 500_000
    assert (large["partition_count"], large["replica_count"]) == (2, 2)
    (directory,) = answer["directories"]
    assert directory["bytes"] == large["bytes"]
    assert Path(directory["directory"]).samefile(broker.directory)
    assert command(["disk", "-b", broker.bootstrap]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[1].split()[0] == "t"
    assert "KiB" in lines[1]


def test_sizes_are_read_by_people() -> None:
    from headrace.cli.disk import human

    sizes = [0, 1023, 1024, 1536, 1024**2 - 1, 1024**3, 1024**6]
    assert [human(size) for size in sizes] == [
        "0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 MiB", "1.0 GiB", "1024.0 PiB",
    ]  # fmt: skip
