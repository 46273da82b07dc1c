"""The index of aborted transactions: what may be in a segment's, and what a cut leaves of it."""

import pytest

from headrace.log.segment.transaction_index import AbortedTransaction, TxnIndex, read_entries
from headrace.model.errors import CorruptLogError
from headrace.model.nouns import Offset
from headrace.testing.disk import SimDisk

PATH = "/t-0/00000000000000000010.txnindex"


def aborted(first: int, last: int) -> AbortedTransaction:
    return AbortedTransaction(7, Offset(first), Offset(last), Offset(last + 1))


def index(*entries: AbortedTransaction) -> tuple[SimDisk, TxnIndex]:
    disk = SimDisk()
    disk.make_directory("/t-0")
    made = TxnIndex(disk, PATH)
    made.append(*entries)
    return disk, made


def read_again(disk: SimDisk) -> list[AbortedTransaction]:
    return TxnIndex(disk, PATH).entries


def test_markers_lie_within_the_segment_whose_index_it_is() -> None:
    _, made = index(aborted(2, 10), aborted(11, 19))
    made.check(10, 20)
    for base, limit in ((11, 20), (10, 19)):
        with pytest.raises(CorruptLogError):
            made.check(base, limit)


def test_a_cut_keeps_the_markers_before_it_and_none_at_it() -> None:
    entries = [aborted(2, 10), aborted(11, 15), aborted(16, 19)]
    for below, kept in ((20, 3), (19, 2), (16, 2), (15, 1), (10, 0), (0, 0)):
        disk, made = index(*entries)
        made.reset(keep_below=below)
        assert made.entries == entries[:kept]
        assert read_again(disk) == entries[:kept]
        made.append(aborted(below, below + 3))
        assert read_again(disk) == [*entries[:kept], aborted(below, below + 3)]


def test_a_transaction_that_ends_where_it_begins_is_none() -> None:
    for entry in (aborted(5, 5), aborted(6, 5)):
        disk, _ = index(entry)
        with pytest.raises(CorruptLogError, match="entry 0 is invalid"):
            read_again(disk)


def test_another_version_and_part_of_an_entry_are_refused() -> None:
    disk, made = index(aborted(1, 5))
    file = disk.open(PATH)
    good = file.read(0, file.size())
    assert read_entries(good, PATH) == made.entries
    for bad in (b"\x00\x01" + good[2:], good[:-1], good + b"\x00"):
        with pytest.raises(CorruptLogError):
            read_entries(bad, PATH)
