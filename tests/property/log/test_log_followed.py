"""A follower that copies a leader's log in any pieces has the same log, also after a restart."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.log.follower_append import UnexpectedBatch, append_as_follower
from headrace.log.log import Log
from headrace.model.errors import StorageError
from headrace.model.nouns import Offset
from headrace.record import batch as wire
from headrace.record.batch_layout import CRC_FROM, LEADER_EPOCH_AT, MAGIC_AT
from headrace.record.compression import CorruptBatch
from tests.property.log.test_log_model import model_settings
from tests.support.log.compaction import COMPACTED, cleaner_of, compact_now, put, with_gaps
from tests.support.log.log import (
    CONFIG,
    NOW_MS,
    PLACE,
    World,
    append,
    append_marker,
    read,
    values,
)

PLAIN, NUMBERED, TRANSACTIONAL, COMMIT, ABORT, NEW_EPOCH, ROLL = range(7)
OPS = st.lists(
    st.tuples(st.integers(PLAIN, ROLL), st.integers(1, 3), st.integers(0, 300)),
    min_size=15,
    max_size=40,
)


def lead(log: Log, ops: list[tuple[int, int, int]]) -> None:
    """Have a leader append: three producers, transactions, epochs, rolls."""
    sequences: dict[int, int] = {}
    open_: set[int] = set()
    epoch = 0
    for kind, producer, size in ops:
        if kind == NEW_EPOCH:
            epoch += 1 + producer
        elif kind == ROLL and log.segments.active.size:
            log.roll()
        elif kind in (COMMIT, ABORT) and open_:
            ended = sorted(open_)[producer % len(open_)]
            append_marker(log, ended, commit=kind == COMMIT, leader_epoch=epoch)
            open_.discard(ended)
        elif kind == PLAIN:
            append(log, *[b"p" * size] * producer, epoch=epoch, timestamp=NOW_MS + size)
        elif kind in (NUMBERED, TRANSACTIONAL):
            transactional = producer in open_ or kind == TRANSACTIONAL
            first = sequences.get(producer, 0)
            sequences[producer] = first + 1
            append(
                log, b"n" * size, epoch=epoch, producer=(producer, 0, first),
                transactional=transactional,
            )  # fmt: skip
            if transactional:
                open_.add(producer)


def content_of(log: Log) -> bytes:
    """All bytes of the log, whatever segments they are in."""
    return b"".join(segment.file.read(0, segment.size) for segment in log.segments)


def picture(log: Log) -> tuple[object, ...]:
    """All that a follower must have as its leader has it."""
    return (
        content_of(log),
        log.end_offset,
        log.epochs.entries,
        [entry._replace() for entry in log.producers.kept.entries()],
        log.first_unstable_offset(),
        log.aborted_transactions(log.start_offset, log.end_offset),
    )


def follow(leader: Log, follower: Log, drawn: Random) -> None:
    """Copy what the follower lacks, in pieces that may end inside a batch."""
    while follower.end_offset < leader.end_offset:
        found = read(leader, follower.end_offset, drawn.randint(1, 2500), below=leader.end_offset)
        data = bytearray(found.data)
        behind = read(leader, found.next_offset, 1, below=leader.end_offset).data
        data += bytes(behind)[: drawn.randint(0, max(len(behind) - 1, 0))]
        end = append_as_follower(follower, memoryview(data), NOW_MS)
        assert end == found.next_offset
        for at in range(len(data)):
            data[at] = 0  # it is not kept


@given(ops=OPS, seed=st.integers(0, 1 << 30), clean=st.booleans())
@model_settings(60)
def test_a_followed_log_is_the_leaders_byte_for_byte_also_after_a_restart(
    ops: list[tuple[int, int, int]], seed: int, clean: bool
) -> None:
    drawn = Random(seed)
    leading, following = World(), World(config=replace(CONFIG, segment_bytes=1700))
    lead(leading.log(), ops)
    follow(leading.log(), following.log(), drawn)
    assert picture(following.log()) == picture(leading.log())
    following.flush(following.log())
    following.restart(clean=clean)
    leading.restart(clean=clean)
    assert not following.directory.quarantined
    assert picture(following.log()) == picture(leading.log())
    append(leading.log(), b"later", epoch=90)
    follow(leading.log(), following.log(), drawn)
    assert picture(following.log()) == picture(leading.log())
    leading.close()
    following.close()


@given(seed=st.integers(0, 1 << 30), clean=st.booleans(), later=st.integers(0, 12))
@model_settings(25)
def test_gaps_that_compaction_left_are_copied_and_believed_after_a_restart(
    seed: int, clean: bool, later: int
) -> None:
    drawn = Random(seed)
    leading, following = with_gaps(later=later), World(config=COMPACTED)
    follow(leading.log(), following.log(), drawn)
    assert content_of(following.log()) == content_of(leading.log())
    assert values(following.log()) == values(leading.log())
    following.restart(clean=clean)  # nothing was flushed: the page cache has it all
    assert not following.directory.quarantined
    assert content_of(following.log()) == content_of(leading.log())
    put(leading.log(), (b"key", b"later"))
    follow(leading.log(), following.log(), drawn)
    compact_now(following, cleaner_of(following))
    assert values(following.log())[leading.log().end_offset - 1] == b"later"
    leading.close()
    following.close()


def two_batches() -> tuple[World, World, bytearray]:
    leading, following = World(), World()
    log = leading.log()
    append(log, b"zero", epoch=2)
    append(following.log(), b"zero", epoch=2)
    append(log, b"one", epoch=2)
    append(log, b"two", epoch=3)
    return leading, following, bytearray(read(log, Offset(1), 2000, below=log.end_offset).data)


@pytest.mark.parametrize("place", [CRC_FROM, MAGIC_AT, 70])
@pytest.mark.parametrize("batch", [0, 1])
def test_of_a_response_with_a_damaged_batch_nothing_is_appended(place: int, batch: int) -> None:
    leading, following, data = two_batches()
    begins = [at for at, _ in wire.iterate(data)]
    data[begins[batch] + place] ^= 0x10
    log = following.log()
    before = picture(log)
    with pytest.raises(CorruptBatch):
        append_as_follower(log, memoryview(data), NOW_MS)
    assert picture(log) == before
    leading.close()
    following.close()


def test_offsets_that_do_not_follow_and_epochs_that_go_back_are_refused_whole() -> None:
    leading, following, data = two_batches()
    log = following.log()
    before = picture(log)
    begins = [at for at, _ in wire.iterate(data)]
    twice = data[: begins[1]] * 2
    with pytest.raises(UnexpectedBatch) as found:
        append_as_follower(log, memoryview(twice), NOW_MS)
    assert found.value.base_offset == 1
    older = bytearray(data)
    older[begins[1] + LEADER_EPOCH_AT : begins[1] + LEADER_EPOCH_AT + 4] = bytes(4)
    with pytest.raises(UnexpectedBatch):
        append_as_follower(log, memoryview(older), NOW_MS)
    with pytest.raises(CorruptBatch):
        append_as_follower(log, memoryview(data)[:40], NOW_MS)
    assert picture(log) == before
    assert append_as_follower(log, memoryview(data), NOW_MS) == 3
    leading.close()
    following.close()


def test_a_response_is_written_once_for_each_segment_and_a_failure_fences() -> None:
    leading, following, data = two_batches()
    log = following.log()
    following.flush(log)
    before = len(following.disk.ops)
    append_as_follower(log, memoryview(data), NOW_MS)
    written = [op for op in following.disk.ops[before:] if op.kind == "write"]
    assert len(written) == 2, "the epochs, and both batches at once"
    append(leading.log(), b"three", epoch=3)
    following.disk.fail_writes()
    more = bytearray(read(leading.log(), Offset(3), 2000, below=Offset(4)).data)
    with pytest.raises(StorageError):
        append_as_follower(log, memoryview(more), NOW_MS)
    assert log.end_offset == 3
    assert following.directory.fenced
    following.disk.heal()
    leading.close()
    following.close()


def test_what_a_follower_appends_across_a_wide_gap_begins_a_segment_of_its_own() -> None:
    leading, following = World(), World()
    far = 5_000_000_000
    append(following.log(), b"near")
    batch = wire.build([wire.new_record(b"far", timestamp=NOW_MS)], base_offset=far, leader_epoch=0)
    log = following.log()
    assert append_as_follower(log, memoryview(batch), NOW_MS) == far + 1
    assert values(log) == {0: b"near", far: b"far"}
    following.restart(clean=False)
    assert PLACE not in following.directory.quarantined
    assert values(following.log()) == {0: b"near", far: b"far"}
    leading.close()
    following.close()
