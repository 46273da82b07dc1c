"""Division of rows by failed checks, verdicts on batches, counts of a batch."""

import json
from contextlib import nullcontext
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.spark.checks.check import Check, Outcome
from headrace.spark.checks.division import Division, Tally
from headrace.spark.checks.options import CHECKS, RowChecks, given_checks, written_names
from headrace.spark.checks.verdict import check_batch, report, sum_of
from headrace.spark.errors import CheckFailedError, OptionError, SinkError
from headrace.spark.given_options import GivenOptions
from headrace.spark.sink.sink_options import parse_sink_options
from headrace.spark.tables.options import parse_table_options

KEEP = Check("k", "a > 0", Outcome.KEEP, 0.5)
DROP = Check("d", "b > 0", Outcome.DROP)
FAIL = Check("f", "c > 0", Outcome.FAIL, 0.9)
QUARANTINE = Check("q", "d > 0", Outcome.QUARANTINE)
ALL = RowChecks((KEEP, DROP, FAIL, QUARANTINE), "t", None)


def batch(*failed: list[str], first: int = 0, places: bool = True) -> pa.RecordBatch:
    count = len(failed)
    columns = {"id": pa.array(range(first, first + count), pa.int64())}
    if places:
        columns["_partition"] = pa.array([1] * count, pa.int32())
        columns["_offset"] = pa.array(range(first, first + count), pa.int64())
    columns["_failed"] = pa.array(list(failed), pa.list_(pa.string()))
    return pa.RecordBatch.from_pydict(columns)


def test_rows_that_fail_a_drop_or_a_quarantine_are_not_written() -> None:
    division = Division(ALL)
    written = list(division.divided([batch([], ["k"], ["d"], ["f", "k"], ["q"], ["d", "k", "q"])]))
    assert [rows.column("id").to_pylist() for rows in written] == [[0, 1, 3]]
    assert written[0].schema.names == ["id", "_partition", "_offset"]
    tally = division.tally
    assert (tally.rows, tally.dropped, tally.quarantined) == (6, 1, 2)
    assert tally.failed == {"k": 3, "d": 2, "f": 1, "q": 2}
    assert tally.examples["k"] == [(1, 1), (1, 3), (1, 5)]
    assert division.moved == {1: {4: "q", 5: "q"}}


def test_a_row_that_fails_two_checks_is_moved_once_by_the_first() -> None:
    checks = RowChecks((QUARANTINE, Check("p", "e > 0", Outcome.QUARANTINE), DROP), "t", None)
    division = Division(checks)
    rows = [batch(["p", "q"], ["p"]), batch(["q", "d"], [], first=2), batch(["p"], first=1)]
    written = [each.column("id").to_pylist() for each in division.divided(rows)]
    assert written == [[], [3], []]
    assert division.moved == {1: {0: "q", 1: "p", 2: "q"}}
    assert (division.tally.quarantined, division.tally.dropped) == (4, 0)


def test_a_row_without_a_position_is_not_lost_by_a_quarantine() -> None:
    with pytest.raises(SinkError, match="check 'q': a row without _partition and _offset"):
        list(Division(ALL).divided([batch([], ["q"], places=False)]))


def test_counts_grow_over_batches_and_keep_the_first_three_places() -> None:
    division = Division(ALL)
    batches = [batch(["d"], ["d"]), batch([], []), batch(["d"], ["d"], first=2), batch(first=9)]
    written = [rows.column("id").to_pylist() for rows in division.divided(batches)]
    assert written == [[], [0, 1], [], []]
    assert (division.tally.rows, division.tally.failed) == (6, {"d": 4})
    assert division.tally.examples == {"d": [(1, 0), (1, 1), (1, 2)]}


def test_rows_without_positions_are_counted_without_places() -> None:
    division = Division(ALL)
    assert len(list(division.divided([batch(["f"], places=False)]))) == 1
    assert division.tally.failed == {"f": 1}
    assert division.tally.examples == {"f": []}


def test_rows_with_a_null_position_are_counted_without_a_place() -> None:
    """Such as the rows of an outer join."""
    joined = batch(["f"], ["f"], ["f"])
    for name, values in {"_partition": [None, 1, 1], "_offset": [0, None, 2]}.items():
        at = joined.schema.get_field_index(name)
        joined = joined.set_column(at, name, pa.array(values, joined.schema.field(at).type))
    division = Division(ALL)
    assert [len(rows) for rows in division.divided([joined])] == [3]
    assert division.tally.failed == {"f": 3}
    assert division.tally.examples == {"f": [(1, 2)]}


def test_tallies_of_tasks_are_added_in_the_order_of_positions() -> None:
    first = Tally(2, {"f": 2}, {"f": [(1, 5), (1, 9)]}, 1, 4)
    second = Tally(3, {"f": 2, "k": 1}, {"f": [(0, 8), (1, 7)], "k": []}, 2, 5)
    whole = sum_of([first, None, second])
    assert (whole.rows, whole.dropped, whole.quarantined) == (5, 3, 9)
    assert whole.failed == {"f": 4, "k": 1}
    assert whole.examples["f"] == [(0, 8), (1, 5), (1, 7)]


@pytest.mark.parametrize(
    ("share", "rows", "failed", "fails"),
    [
        (1.0, 10, 0, False),
        (1.0, 10, 1, True),
        (0.9, 10, 1, False),
        (0.9, 10, 2, True),
        (0.07, 100, 93, False),
        (0.07, 100, 94, True),
        (0.5, 0, 0, False),
    ],
)
def test_a_check_fails_below_its_share(share: float, rows: int, failed: int, fails: bool) -> None:
    checks = RowChecks((Check("f", "c", Outcome.FAIL, share),), "t", None)
    tally = Tally(rows, {"f": failed} if failed else {}, {"f": [(0, 1)]})
    if not fails:
        check_batch(checks, tally, 3)
        return
    with pytest.raises(
        CheckFailedError, match=f"check 'f' failed: {failed} of {rows} rows of batch 3"
    ):
        check_batch(checks, tally, 3)


@pytest.mark.parametrize("outcome", [Outcome.KEEP, Outcome.DROP, Outcome.QUARANTINE])
def test_only_a_failing_check_ends_a_batch(outcome: Outcome) -> None:
    checks = RowChecks((Check("f", "c", outcome),), "t", None)
    check_batch(checks, Tally(2, {"f": 2}), 0)


@pytest.mark.parametrize(
    ("topic", "places", "number", "text"),
    [
        ("t", [(0, 5), (1, 6)], 7, "check 'f' failed: 2 of 4 rows of batch 7, first t-0@5, t-1@6"),
        ("", [(0, 5)], 7, "check 'f' failed: 2 of 4 rows of batch 7, first 0@5"),
        ("t", [], None, "check 'f' failed: 2 of 4 rows of the batch"),
    ],
)
def test_a_verdict_names_check_count_and_places(
    topic: str, places: list[tuple[int, int]], number: int | None, text: str
) -> None:
    checks = RowChecks((Check("f", "c", Outcome.FAIL),), topic, None)
    with pytest.raises(CheckFailedError) as raised:
        check_batch(checks, Tally(4, {"f": 2}, {"f": places}), number)
    assert str(raised.value) == text


def test_a_verdict_with_a_share_says_how_many_must_pass() -> None:
    with pytest.raises(CheckFailedError, match=r"; 50.00% pass, and at least 90.00% must$"):
        check_batch(ALL, Tally(4, {"f": 2}), 0)


def test_counts_of_a_batch_are_written_for_the_run(tmp_path: Path) -> None:
    checks = RowChecks(ALL.checks, "t", tmp_path / "flow")
    report(checks, Tally(4, {"k": 3, "d": 1}, {"k": [(0, 1)], "d": []}, 1, 2), 12)
    assert [path.name for path in (tmp_path / "flow").iterdir()] == ["12.json"]
    assert json.loads((tmp_path / "flow" / "12.json").read_text()) == {
        "rows": 4,
        "dropped": 1,
        "quarantined": 2,
        "failed": {"k": 3, "d": 1, "f": 0, "q": 0},
        "below": ["k"],
        "examples": {"k": ["t-0@1"]},
    }


def test_counts_that_cannot_be_written_stop_nothing(tmp_path: Path) -> None:
    """Rule 24: the batch is committed."""
    (tmp_path / "flow").write_text("no directory")
    report(RowChecks(ALL.checks, "t", tmp_path / "flow"), Tally(1), 0)


def test_the_option_gives_back_the_checks(tmp_path: Path) -> None:
    for checks in (ALL, RowChecks((DROP,), "", tmp_path), RowChecks((DROP,), "t", None, "ab")):
        assert given_checks(GivenOptions(checks.to_option())) == checks
    assert given_checks(GivenOptions({})) is None
    for wrong in ("", "[]", '{"checks": [["a", "b", "none", 1]], "topic": "", "counts": null}'):
        with pytest.raises(OptionError, match="checks: "):
            given_checks(GivenOptions({CHECKS: wrong}))


@pytest.mark.parametrize("parse", ["table", "topic"])
def test_a_stream_without_a_quarantine_does_not_move_rows(parse: str) -> None:
    """They would be in neither place."""
    given = {"pipeline": "p", "checkpointLocation": "/c", "kafka.bootstrap.servers": "a:1"}
    for checks, refused in ((ALL, True), (RowChecks((DROP,), "t", None), False)):
        options = {**given, **checks.to_option()}
        if parse == "table":
            del options["kafka.bootstrap.servers"]
            options |= {"tableFormat": "delta", "path": "/t"}
        with pytest.raises(OptionError, match="'q' moves rows") if refused else nullcontext():
            if parse == "table":
                parse_table_options(options, streaming=True)
            else:
                parse_sink_options(options, streaming=True)


def test_written_columns_lack_the_one_of_failed_checks() -> None:
    assert written_names(["a", "_failed", "b"], ALL) == ["a", "b"]
    assert written_names(["a", "_failed"], None) == ["a", "_failed"]
    with pytest.raises(OptionError, match="the rows have no column _failed"):
        written_names(["a"], ALL)
