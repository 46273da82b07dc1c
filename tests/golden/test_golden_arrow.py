"""`headrace.arrow.open` reads from real Kafkas' directories what Kafka's own client read."""

import tarfile
from pathlib import Path
from typing import Any

import pytest

import headrace.arrow
from headrace.arrow.read.columns import COLUMNS, HEADERS
from headrace.arrow.read.open_topic import Isolation
from headrace.arrow.read.partition_files import PartitionFiles
from headrace.model.nouns import TopicPartition
from tests.golden.test_log_golden import BROKERS, GOLDEN, expected, short

Rows = list[list[Any]]


@pytest.fixture(scope="module", params=BROKERS)
def unpacked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log directory of a Kafka, as it lay after its clean stop."""
    place = tmp_path_factory.mktemp(request.param)
    with tarfile.open(GOLDEN / f"{request.param}.tgz") as packed:
        packed.extractall(place, filter="data")
    (place / "name").write_text(request.param)
    return place


def log_dir(unpacked: Path) -> Path:
    return next(unpacked.rglob("meta.properties")).parent


def rows_of(directory: Path, topic: str, partition: int, isolation: Isolation) -> Rows:
    reader = headrace.arrow.open(
        directory, topic, partitions=[partition], isolation=isolation,
        columns=(*COLUMNS, HEADERS), batch_rows=500,
    )  # fmt: skip
    table = reader.read_all()
    table.validate(full=True)
    micros = table["timestamp"].cast("int64").to_pylist()
    return [
        [
            row["offset"], row["timestampType"] + 1, time // 1000,
            short(row["key"]), short(row["value"]),
            [[one["key"], short(one["value"])] for one in row["headers"] or ()],
        ]
        for row, time in zip(table.to_pylist(), micros, strict=True)
    ]  # fmt: skip


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_rows_are_what_kafkas_client_read(unpacked: Path, isolation: Isolation) -> None:
    wanted = expected((unpacked / "name").read_text())[isolation]
    assert len(wanted) > 10
    for place, rows in wanted.items():
        topic, _, partition = place.rpartition("-")
        assert rows_of(log_dir(unpacked), topic, int(partition), isolation) == rows, place


def test_times_lead_where_kafkas_offsets_for_times_leads(unpacked: Path) -> None:
    known = expected((unpacked / "name").read_text())
    wanted = known["offsets_for_times"]
    assert wanted
    for asked, offset in wanted.items():
        place, _, moment = asked.rpartition("@")
        topic, _, partition = place.rpartition("-")
        files = PartitionFiles(str(log_dir(unpacked)), TopicPartition(topic, int(partition)))
        start, end = known["watermarks"][place]
        assert files.end_offset() == end
        found = files.first_from_time(int(moment), start, end)
        assert (found if found < end else -1) == offset, asked
