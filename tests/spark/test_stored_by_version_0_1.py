"""Queries that version 0.1 (5ea511b8) left stopped before their last commit: they go on here."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.version_before import spark_state
from tests.support.version_before.compare import differences
from tests.support.version_before.spark_run import FORMATS
from tests.support.version_before.stored_broker import StoredBroker
from tests.support.version_before.write_broker import GOLDEN, read_json, unpack
from tests.support.version_before.write_spark import RECORDS

MORE = 150


@pytest.fixture(scope="module")
def stored() -> Iterator[tuple[StoredBroker, Path]]:
    """A broker on what version 0.1 left, and the place of checkpoints and tables."""
    with spark_state.place() as place:
        unpack(GOLDEN / "spark.tar.xz", place)
        for path in (place / "log").iterdir():
            path.rename(place / path.name)
        with StoredBroker(place / "broker") as broker:
            yield broker, place


@pytest.mark.timeout(900)
def test_queries_of_version_0_1_repeat_their_last_batch_without_doubling(
    stored: tuple[StoredBroker, Path],
) -> None:
    broker, place = stored
    recorded = read_json(GOLDEN / "spark.expected.json.gz")
    assert [*differences(recorded, spark_state.observe(broker, place))] == []
    files = {path for kind in FORMATS for path in (place / kind).rglob("*.parquet")}
    spark_state.produce(broker, RECORDS, MORE)
    spark_state.run(broker, place)
    found = spark_state.observe(broker, place)
    spark_state.holds_once(found, range(RECORDS + MORE))
    assert files <= {path for kind in FORMATS for path in (place / kind).rglob("*.parquet")}
