"""`headrace.arrow.open` while the topic changes under its reader, and a reader given up halfway."""

import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest

import headrace.arrow
from headrace.arrow.read.partition_files import PartitionFiles
from headrace.model.errors import ApiError, CorruptLogError, ErrorCode
from headrace.model.nouns import TopicPartition
from tests.support.client.open_topic import FIRST, fill, logs_of, poured, values
from tests.support.log.log import World


def test_a_reader_given_up_halfway_leaves_no_thread(world: World, tmp_path: Path) -> None:
    for number in range(3):
        fill(world, 40, TopicPartition("t", number))
    reader = headrace.arrow.open(poured(world, tmp_path), "t", threads=3, batch_rows=1)
    reader.read_next_batch()
    reader.close()
    del reader
    for one in threading.enumerate():
        if one.name.startswith("arrow-"):
            one.join(5)
            assert not one.is_alive()


def half_read(directory: Path) -> tuple[pa.RecordBatchReader, list[bytes | None]]:
    """A reader that stands in the first segment."""
    reader = headrace.arrow.open(directory, "t", columns=["value"], batch_rows=1)
    return reader, reader.read_next_batch()["value"].to_pylist()


def rest(reader: pa.RecordBatchReader) -> list[bytes | None]:
    return [value for batch in reader for value in batch["value"].to_pylist()]


def test_a_segment_deleted_while_it_is_read_is_read_to_its_end(
    world: World, tmp_path: Path
) -> None:
    wanted = fill(world)
    directory = poured(world, tmp_path)
    reader, first = half_read(directory)
    for path in logs_of(directory)[:3]:
        path.rename(f"{path}.deleted")
    gone = int(logs_of(directory)[0].stem)
    second = sorted((directory / "t-0").glob("*.deleted"))[1]
    found = first + rest(reader)
    assert found == wanted[: int(second.name[:20])] + wanted[gone:]


def test_segment_deleted_after_the_listing_is_passed_over(world: World, tmp_path: Path) -> None:
    fill(world)
    directory = poured(world, tmp_path)
    files = PartitionFiles(str(directory), TopicPartition("t", 0))
    deleted, following, *_ = logs_of(directory)
    deleted.unlink()
    segment = files.segment_at(int(deleted.stem))
    assert segment is not None
    segment.close()
    assert segment.base_offset == int(following.stem)


def test_segments_put_together_by_compaction_while_they_are_read(
    world: World, tmp_path: Path
) -> None:
    wanted = fill(world)
    directory = poured(world, tmp_path)
    reader, first = half_read(directory)
    *merged, _ = logs_of(directory)
    merged[0].with_suffix(".swap").write_bytes(b"".join(path.read_bytes() for path in merged))
    for path in merged[1:]:
        path.unlink()
    merged[0].with_suffix(".swap").rename(merged[0])
    assert first + rest(reader) == wanted


def test_a_topic_deleted_while_it_is_read_is_an_error(world: World, tmp_path: Path) -> None:
    fill(world)
    directory = poured(world, tmp_path)
    reader, _ = half_read(directory)
    (directory / "t-0").rename(directory / "t-0.0123-delete")
    with pytest.raises(ApiError, match="not exist") as caught:
        rest(reader)
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_made_again_while_it_is_read_is_not_taken_for_the_first(
    world: World, tmp_path: Path
) -> None:
    fill(world)
    directory = poured(world, tmp_path)
    reader, _ = half_read(directory)
    metadata = directory / "t-0" / "partition.metadata"
    metadata.write_text("version: 0\ntopic_id: XNOSFC_7KvKf4hZLfT2FNQ")
    with pytest.raises(ApiError, match="made again") as caught:
        rest(reader)
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_compaction_that_was_interrupted_is_waited_for_and_then_an_error(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = fill(world)
    directory = poured(world, tmp_path)
    swap = directory / "t-0" / f"{FIRST}.log.swap"
    swap.write_bytes(b"")
    waits: list[float] = []
    own, real = threading.get_ident(), time.sleep

    def sleep(seconds: float) -> None:
        # Threads of other tests' brokers sleep meanwhile.
        (waits.append if threading.get_ident() == own else real)(seconds)

    monkeypatch.setattr("headrace.arrow.read.partition_files.time.sleep", sleep)
    with pytest.raises(CorruptLogError, match="interrupted"):
        headrace.arrow.open(directory, "t")
    assert sum(waits) == pytest.approx(5.0)
    monkeypatch.setattr(
        "headrace.arrow.read.partition_files.time.sleep", lambda _: swap.unlink(missing_ok=True)
    )
    assert values(headrace.arrow.open(directory, "t")) == wanted
