"""Drivers that are killed while they write tables: each record is in the table once."""

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.spark.kit import Topics
from tests.spark.long import QUICK_JAVA, long_only
from tests.support.spark.tables import FORMATS, read

DRIVER = Path(__file__).with_name("table_driver.py")
RECORDS = 6_000
KILLS = 4
SECONDS_MAX = 900
"""Of one driver, beside much else on the same machine."""


@long_only
@pytest.mark.timeout((KILLS + 1) * SECONDS_MAX)
@pytest.mark.parametrize("kind", FORMATS)
def test_a_driver_killed_at_any_time_leaves_each_record_once(
    topics: Topics, tmp_path: Path, kind: str
) -> None:
    topic = topics.create(partitions=2)
    for partition in (0, 1):
        topics.number(topic, partition, 0, RECORDS // 2)
    dice = random.Random(kind)
    for kills in range(KILLS + 1):
        driver = subprocess.Popen(
            [sys.executable, str(DRIVER), topics.bootstrap, topic, str(tmp_path), kind],
            env={**os.environ, **QUICK_JAVA},
            start_new_session=True,  # killed with its JVM and workers, as by a power cut
        )
        try:
            if kills == KILLS:
                assert driver.wait(SECONDS_MAX) == 0
            else:
                _wait_for(tmp_path, driver, _batches(tmp_path) + dice.randint(1, 2))
                time.sleep(dice.random() * 0.5)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()
    rows = read(tmp_path / "table", kind)
    places = list(zip(*(rows.column(name).to_pylist() for name in ("partition", "offset"))))  # noqa: B905
    assert sorted(places) == [(part, at) for part in (0, 1) for at in range(RECORDS // 2)]
    assert not list((tmp_path / "table").rglob("_headrace/attempts/*"))


def _batches(directory: Path) -> int:
    return len(list((directory / "checkpoint" / "commits").glob("[0-9]*")))


def _wait_for(directory: Path, driver: "subprocess.Popen[bytes]", batches: int) -> None:
    end = time.monotonic() + SECONDS_MAX
    while _batches(directory) < batches and driver.poll() is None:
        assert time.monotonic() < end, "the driver writes nothing"
        time.sleep(0.01)
