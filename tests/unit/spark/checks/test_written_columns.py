"""Keys that rows of a batch share, over tasks, and the newest times that a batch has."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from headrace.spark.checks.check import Check, Fresh, Outcome, Unique
from headrace.spark.checks.division import Division, Tally
from headrace.spark.checks.options import CHECKS, RowChecks, given_checks
from headrace.spark.checks.verdict import check_batch, sum_of
from headrace.spark.errors import CheckFailedError
from headrace.spark.given_options import GivenOptions

TIME = datetime(2026, 11, 28, 10, 31, tzinfo=UTC)
ID = Unique(("id",))


def rows(
    ids: list[Any], first: int = 0, *, kind: pa.DataType | None = None, places: bool = True
) -> pa.RecordBatch:
    count = len(ids)
    columns = {"id": pa.array(ids, kind or pa.int64())}
    columns["at"] = pa.array(
        [TIME + timedelta(seconds=first + number) for number in range(count)],
        pa.timestamp("us", "UTC"),
    )
    if places:
        columns["_partition"] = pa.array([first % 2] * count, pa.int32())
        columns["_offset"] = pa.array(range(first, first + count), pa.int64())
    columns["_failed"] = pa.array([[] for _ in ids], pa.list_(pa.string()))
    return pa.RecordBatch.from_pydict(columns)


def tally_of(checks: RowChecks, *tasks: list[pa.RecordBatch]) -> Tally:
    tallies = []
    for batches in tasks:
        division = Division(checks)
        for _ in division.divided(batches):
            pass
        tallies.append(division.tally)
    return sum_of(tallies)


def unique(*checks: Unique) -> RowChecks:
    return RowChecks((), "t", None, unique=checks or (ID,))


def test_a_key_that_two_tasks_have_fails_the_batch_with_count_and_places() -> None:
    tasks = [[rows([1, 2]), rows([3], 2)], [rows([2, 4, 2], 11)], []]
    with pytest.raises(CheckFailedError) as raised:
        check_batch(unique(), tally_of(unique(), *tasks), 7)
    assert str(raised.value) == (
        "check 'unique id' failed: 2 rows of batch 7 (6 in all) with the key of an earlier one, "
        "first t-0@1 and t-1@11"
    )


def test_three_examples_are_named_and_all_rows_counted() -> None:
    ids = [*range(9), *range(9), 0]
    with pytest.raises(CheckFailedError) as raised:
        check_batch(unique(), tally_of(unique(), [rows(ids)]), None)
    text = str(raised.value)
    assert "failed: 10 rows of the batch (19 in all)" in text
    assert text.endswith("first t-0@0 and t-0@9; t-0@1 and t-0@10; t-0@2 and t-0@11")


def test_rows_without_positions_are_named_by_their_key() -> None:
    with pytest.raises(CheckFailedError, match=r"first id=5$"):
        check_batch(unique(), tally_of(unique(), [rows([5, 6, 5], places=False)]), 0)


@pytest.mark.parametrize(
    ("kind", "same", "other"),
    [
        (pa.int32(), 1, 2),
        (pa.string(), "a", "A"),
        (pa.binary(), b"\x00", b""),
        (pa.bool_(), True, False),
        (pa.decimal128(12, 2), Decimal("1.10"), Decimal("1.11")),
        (pa.timestamp("us", "UTC"), TIME, TIME + timedelta(microseconds=1)),
        (pa.date32(), TIME.date(), TIME.date() + timedelta(days=1)),
    ],
)
def test_keys_of_each_type_are_compared_by_value(kind: pa.DataType, same: Any, other: Any) -> None:
    checks = unique()
    check_batch(checks, tally_of(checks, [rows([same, other], kind=kind)]), 0)
    with pytest.raises(CheckFailedError, match="1 row of batch 0"):
        check_batch(checks, tally_of(checks, [rows([same, other, same], kind=kind)]), 0)


def test_rows_with_a_null_in_the_key_equal_no_other() -> None:
    checks = unique(Unique(("id", "at")))
    both = [rows([None, 1]), rows([None, 1])]
    with pytest.raises(CheckFailedError, match="1 row of batch 0"):
        check_batch(checks, tally_of(checks, both), 0)
    check_batch(checks, tally_of(checks, [rows([None, None])]), 0)
    check_batch(checks, tally_of(checks, [rows([1, 1])]), 0)


def test_rows_that_are_dropped_have_no_key() -> None:
    """Uniqueness is of the written rows."""
    drop = Check("d", "c", Outcome.DROP)
    checks = RowChecks((drop,), "t", None, unique=(ID,))
    batch = rows([1, 1])
    failed = pa.array([[], ["d"]], pa.list_(pa.string()))
    batch = batch.set_column(batch.num_columns - 1, "_failed", failed)
    check_batch(checks, tally_of(checks, [batch]), 0)


def test_several_keys_are_compared_by_themselves() -> None:
    checks = unique(ID, Unique(("_offset",)))
    check_batch(checks, tally_of(checks, [rows([1, 2])]), 0)
    with pytest.raises(CheckFailedError, match="unique _offset"):
        check_batch(checks, tally_of(checks, [rows([1]), rows([2])]), 0)


def test_the_newest_time_is_that_of_all_tasks() -> None:
    checks = RowChecks((), "t", None, fresh=(Fresh("at", "1 minute"),))
    tally = tally_of(checks, [rows([1, 2], 5)], [rows([3], 2), rows([])], [])
    assert tally.newest == {"at": int(TIME.timestamp() * 1_000_000) + 6_000_000}
    assert tally_of(checks, [rows([])]).newest == {}
    assert tally.keys == {}


def test_options_carry_the_checks_to_the_sink() -> None:
    checks = RowChecks(
        (), "t", None, unique=(ID, Unique(("a", "b"))), fresh=(Fresh("at", "1 hour"),)
    )
    assert given_checks(GivenOptions({CHECKS: checks.to_option()[CHECKS]})) == checks
