"""The share of refused records from which a query ends: over batches, topics and schemas."""

from pathlib import Path

import pytest

from headrace.spark.errors import TooManyRefusedError
from headrace.spark.quarantine.manifest import Refusals
from headrace.spark.quarantine.refused import RefusedRecord
from headrace.spark.quarantine.share import RecentRefusals
from headrace.spark.quarantine.spool import Planned

FIRST = RefusedRecord("t", 0, 7, 0, None, b"", [], "decode", "no object", "", "aa", 1)


def refusals(
    refused: int, read: int, begin: int = 0, *, topic: str = "t", schema: str = "aa"
) -> Refusals:
    """A batch of one partition that reads `read` records from an offset on."""
    planned = (Planned(0, begin, begin + read),)
    return Refusals(topic, schema, planned, read, refused, FIRST)


@pytest.fixture
def recent(tmp_path: Path) -> RecentRefusals:
    return RecentRefusals(tmp_path, 0.5, 1000)


def test_more_than_half_of_a_thousand_ends_the_query(recent: RecentRefusals) -> None:
    """Rule 8, as corrected: the last 1,000 records count."""
    recent.check(0, [refusals(500, 1000)])
    with pytest.raises(
        TooManyRefusedError,
        match=r"501 of the last 1,000 records of topic t \(50.1%\), the first of batch 3 is t-0@7",
    ):
        recent.check(3, [refusals(501, 1000)])


def test_fewer_records_never_end_a_query(recent: RecentRefusals) -> None:
    recent.check(0, [refusals(1, 1)])
    recent.check(0, [refusals(999, 999)])


def test_small_batches_count_together(recent: RecentRefusals) -> None:
    for batch in range(9):
        recent.check(batch, [refusals(60, 100, batch * 100)])
        recent.add(batch, [refusals(60, 100, batch * 100)])
    with pytest.raises(TooManyRefusedError, match="600 of the last 1,000 records"):
        recent.check(9, [refusals(60, 100, 900)])


def test_batches_without_refused_records_count_as_read(recent: RecentRefusals) -> None:
    recent.add(0, [refusals(400, 400)])
    # 600 records were accepted between the two batches.
    recent.check(5, [refusals(399, 400, 1000)])
    with pytest.raises(TooManyRefusedError, match="700 of the last 1,000"):
        recent.check(5, [refusals(600, 600, 400)._replace(refused=300)])


def test_older_batches_do_not_count_once_a_thousand_followed(recent: RecentRefusals) -> None:
    recent.add(0, [refusals(900, 900)])
    recent.add(1, [refusals(1, 1000, 900)])
    recent.check(2, [refusals(400, 900, 1900)])


def test_topics_and_schemas_count_by_themselves(recent: RecentRefusals) -> None:
    recent.add(0, [refusals(900, 900), refusals(0, 900, topic="u")])
    recent.check(1, [refusals(200, 200, 900, topic="u")])
    recent.check(1, [refusals(200, 200, 900, schema="bb")])
    with pytest.raises(TooManyRefusedError, match="topic t"):
        recent.check(1, [refusals(1, 900, 900, topic="u"), refusals(200, 200, 900)])


def test_a_repeated_batch_counts_once(recent: RecentRefusals) -> None:
    recent.add(0, [refusals(500, 500)])
    recent.add(1, [refusals(400, 400, 500)])
    recent.check(1, [refusals(400, 400, 500)])


def test_share_and_least_number_are_options(tmp_path: Path) -> None:
    recent = RecentRefusals(tmp_path, 0.1, 10)
    recent.check(0, [refusals(1, 10)])
    recent.check(0, [refusals(9, 9)])
    with pytest.raises(TooManyRefusedError):
        recent.check(0, [refusals(2, 10)])
    RecentRefusals(tmp_path, 1.0, 10).check(0, [refusals(10, 10)])


def test_notes_that_are_lost_or_damaged_do_no_harm(recent: RecentRefusals, tmp_path: Path) -> None:
    recent.add(0, [refusals(900, 900)])
    (tmp_path / "recent.json").write_text('{"t": [[1, 2]]}')
    recent.check(1, [refusals(200, 200, 900)])
    recent.add(1, [refusals(200, 200, 900)])
