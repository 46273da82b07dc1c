"""The tools on files of a broker that runs, was killed, was stopped: real processes."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.support.processes.process import BrokerProcess

SETTINGS: dict[str, Any] = {
    "log_segment_bytes": 30_000,
    "log_index_interval_bytes": 1000,
    "log_retention_bytes": 200_000,
    "log_retention_check_interval_ms": 200,
    "log_segment_delete_delay_ms": 100,
    "num_partitions": 3,
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path, **SETTINGS)
    broker.start()
    yield broker
    broker.kill()


class Writing:
    """Records of all codecs as long as the block lasts."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._bootstrap = broker.bootstrap
        self._over = Event()
        self._thread = Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        producers = [
            Producer(
                {
                    "bootstrap.servers": self._bootstrap,
                    "compression.type": codec,
                    "linger.ms": 1,
                    "log_level": 0,
                }
            )
            for codec in ("none", "gzip", "snappy", "lz4", "zstd")
        ]
        number = 0
        while not self._over.wait(0.001):
            for producer in producers:
                producer.produce("live", key=b"%d" % (number % 50), value=b"v" * (number % 300))
                producer.poll(0)
                number += 1
        for producer in producers:
            producer.purge()

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(20)


def verified(place: Path) -> tuple[int, dict[str, object]]:
    command = [sys.executable, "-m", "headrace.cli.main", "log", "verify", "--json", str(place)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return done.returncode, found


def test_a_broker_under_load_is_found_sound_again_and_again(broker: BrokerProcess) -> None:
    place = broker.directory / "log"
    with Writing(broker):
        seen = 0
        while seen < 5000:
            status, found = verified(place)
            assert status == 0, found["findings"]
            assert found["live"] is True
            seen = max(seen + 1000, int(str(found["records"])))
    assert broker.stop() == 0
    status, found = verified(place)
    assert (status, found["live"]) == (0, False)
    # What retention has renamed away and not yet removed is told, and is no damage.
    findings = found["findings"]
    assert isinstance(findings, list)
    assert [one for one in findings if one["kind"] != "leftover"] == []


def test_what_a_kill_leaves_is_sound_and_the_next_start_sees_to_the_rest(
    broker: BrokerProcess,
) -> None:
    place = broker.directory / "log"
    with Writing(broker):
        while verified(place)[1]["records"] == 0:
            pass
        broker.kill()
    status, found = verified(place)
    assert status == 0, found["findings"]
    broker.start()
    assert broker.stop() == 0
    status, found = verified(place)
    assert (status, found["findings"]) == (0, [])
