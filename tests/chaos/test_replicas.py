"""The comparison of replicas on disk finds each kind of what must not be."""

from pathlib import Path

import pytest

from headrace.log.text_files import write_offsets
from headrace.model.nouns import TopicPartition
from headrace.record import batch as wire
from tests.chaos.replicas import Compared, compare

NAME = "t-0"


def batch(base_offset: int, *values: bytes) -> bytes:
    records = [wire.new_record(value, timestamp=1) for value in values]
    return wire.build(records, base_offset=base_offset, leader_epoch=3)


WHOLE = [batch(0, b"a", b"b"), batch(2, b"c"), batch(3, b"d")]


def replica(place: Path, batches: list[bytes], high_watermark: int = 4) -> None:
    """Two segments and what a broker noted of them."""
    directory = place / NAME
    directory.mkdir(parents=True)
    (directory / f"{0:020}.log").write_bytes(b"".join(batches[:2]))
    (directory / f"{3:020}.log").write_bytes(b"".join(batches[2:]))
    marks = write_offsets({TopicPartition("t", 0): high_watermark})
    (place / "replication-offset-checkpoint").write_bytes(marks)


def compared(place: Path, *, compacted: bool = False) -> Compared:
    directories = {number: [place / f"{number}"] for number in range(2)}
    return compare(directories, {("t", 0): (0, 1)}, ("t",) if compacted else ())


@pytest.mark.parametrize(
    ("batches", "difference"),
    [
        ([*WHOLE[:2], batch(3, b"D")], "differ at 1 offsets, the first is 3 of 4"),
        ([WHOLE[0], batch(2, b"c", b"d")], "have the same in other bytes"),
        (WHOLE[:2], "broker 1 ends at 3, and 4 is committed"),
        ([WHOLE[0], WHOLE[2]], "differ at 1 offsets, the first is 2 of 4"),
    ],
)
def test_a_replica_with_other_records_bytes_or_end_is_found(
    tmp_path: Path, batches: list[bytes], difference: str
) -> None:
    replica(tmp_path / "0", WHOLE)
    replica(tmp_path / "1", batches)
    assert any(difference in told for told in compared(tmp_path).differences)


def test_equal_replicas_are_equal_and_what_is_not_committed_may_differ(tmp_path: Path) -> None:
    replica(tmp_path / "0", [*WHOLE[:2], batch(3, b"lost")], high_watermark=3)
    replica(tmp_path / "1", WHOLE[:2], high_watermark=2)
    found = compared(tmp_path)
    assert not found.differences
    assert (found.partitions, found.replicas) == (1, 2)


def test_compaction_may_take_records_from_one_replica_and_may_not_change_any(
    tmp_path: Path,
) -> None:
    replica(tmp_path / "0", WHOLE)
    replica(tmp_path / "1", [WHOLE[0], WHOLE[2]])
    assert not compared(tmp_path, compacted=True).differences
    other = tmp_path / "other"
    replica(other / "0", WHOLE)
    replica(other / "1", [batch(0, b"a", b"B"), WHOLE[2]])
    assert compared(other, compacted=True).differences


def test_a_replica_that_is_not_there_is_found(tmp_path: Path) -> None:
    replica(tmp_path / "0", WHOLE)
    (tmp_path / "1").mkdir()
    assert "nothing where one directory is due" in compared(tmp_path).differences[0]
