"""Played Spark, killed at each point of the quarantine's protocol: each record in one place, once.

`python -m tests.spark_kills --only quarantine` plays each point several times.
"""

from pathlib import Path
from typing import Any

import pytest

from headrace.spark.errors import SinkError
from headrace.spark.quarantine import sink_batch
from tests.spark.kit import Topics
from tests.spark_kills.quarantine_points import STAGES
from tests.spark_kills.quarantine_story import SINKS, QuarantineStory
from tests.spark_kills.sink_story import Killed


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("kind", SINKS)
def test_killed_at_any_point_each_record_is_written_or_quarantined_once(
    topics: Topics, tmp_path: Path, kind: str, stage: str
) -> None:
    """Rule 1: kill at every named point of the protocol."""
    story = QuarantineStory(topics, tmp_path, kind, stage)
    story.play(None)
    for point in STAGES[stage]:
        story.play(point)
        assert story.counts[f"{story.name}: killed {point}"] == 1
    assert story.counts[f"{story.name}: refused"]
    assert story.counts[f"{story.name}: written"]


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("kind", SINKS)
def test_a_parser_or_check_changed_after_a_kill_leaves_each_record_in_one_place(
    topics: Topics, tmp_path: Path, kind: str, stage: str
) -> None:
    """Rule 2: the manifest that the sink's commit names decides, not the repeated tasks."""
    story = QuarantineStory(topics, tmp_path, kind, stage)
    for number, point in enumerate(STAGES[stage]):
        fixed, strict = (lambda n: n % 9 == 0), (lambda n: n % 2 == 0)
        story.refuses = strict if number % 2 else fixed
        story.play(point, then=fixed if number % 2 else strict)
        assert story.counts[f"{story.name}: killed {point}"] == 1


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("kind", SINKS)
def test_a_repeated_batch_publishes_nothing_more(
    topics: Topics, tmp_path: Path, kind: str, stage: str
) -> None:
    """Rule 4: the quarantine has the same offsets and no others."""
    story = QuarantineStory(topics, tmp_path, kind, stage)
    story.play(None)
    before = [(row["partition"], row["offset"]) for row in story.quarantined()]
    story.batch, story.first = 0, 0
    size = story.plan()
    story.attempt(size)
    story.done(size)
    assert [(row["partition"], row["offset"]) for row in story.quarantined()] == before


@pytest.mark.parametrize("kind", SINKS)
def test_where_all_records_are_refused_nothing_is_written_until_the_schema_fits(
    topics: Topics, tmp_path: Path, kind: str
) -> None:
    """Rule 8: the first batch ends the query; sink and quarantine are unchanged."""
    story = QuarantineStory(topics, tmp_path, kind, quarantineRecordsMin="30")
    story.refuses = lambda number: True
    size = story.plan()
    for _ in range(2):  # Started again, it fails alike.
        with pytest.raises(RuntimeError, match="40 of the last 40 records of topic"):
            story.attempt(size)
        assert story.quarantined() == []
        assert story.written() == []
    story.refuses = lambda number: number == 7
    story.attempt(size)
    story.done(size)
    assert len(story.quarantined()) == 1


@pytest.mark.parametrize("kind", SINKS)
def test_a_batch_whose_records_are_all_refused_is_one_batch(
    topics: Topics, tmp_path: Path, kind: str
) -> None:
    """Rules 1 and 2 where the sink gets no row: its commit still names the manifest."""
    story = QuarantineStory(topics, tmp_path, kind)
    story.play(None)
    story.refuses = lambda number: True
    story.play("before publishing", then=lambda number: False)
    story.refuses = lambda number: True
    story.play("after the manifest", then=lambda number: False)
    assert story.counts[f"{kind}: refused"] == 14 + 42


@pytest.mark.parametrize("kind", ["parquet", "topic"])
def test_brokers_away_at_the_publication_end_the_batch_which_is_published_later(
    topics: Topics, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = QuarantineStory(topics, tmp_path, kind)
    size = story.plan()

    def away(*_: Any) -> bool:
        raise SinkError("quarantine of flow orders: no broker answers")

    with monkeypatch.context() as patched:
        patched.setattr(sink_batch, "publish", away)
        with pytest.raises(RuntimeError, match="no broker answers"):
            story.attempt(size)
    assert story.quarantined() == []
    story.refuses = lambda number: False
    story.attempt(size)
    story.done(size)
    assert story.counts[f"{kind}: refused"]


@pytest.mark.parametrize("kind", ["delta", "topic"])
def test_a_lost_manifest_is_one_error_that_names_the_file(
    topics: Topics, tmp_path: Path, kind: str
) -> None:
    story = QuarantineStory(topics, tmp_path, kind)
    size = story.plan()
    with pytest.raises(Killed):
        story.attempt(size, "before publishing")
    (manifest,) = story.spool.query(story.query).glob("0.*.arrow")
    content = manifest.read_bytes()
    manifest.unlink()
    with pytest.raises(RuntimeError, match=f"cannot be read from {manifest}: .*restore the file"):
        story.attempt(size)
    assert story.quarantined() == []
    manifest.write_bytes(content)
    story.attempt(size)
    story.done(size)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("kind", SINKS)
def test_of_two_runs_the_one_that_the_sink_takes_decides_what_is_quarantined(
    topics: Topics, tmp_path: Path, kind: str, stage: str
) -> None:
    story = QuarantineStory(topics, tmp_path, kind, stage)
    size = story.plan()
    sent = story.begin()
    older = story.tasks(sent, "run-1", size)
    story.refuses = lambda number: number % 3 == 1
    if kind == "topic":  # A newer run fences an older one as it begins.
        sent = story.begin()
    newer = story.tasks(sent, "run-2", size)
    story.commit(newer)
    if kind == "topic":
        with pytest.raises(RuntimeError, match=r"is not open any more|a newer run"):
            story.commit(older)
    else:
        story.commit(older)
    story.done(size)
    malformed = {number for number in range(2 * size) if stage == "check" and number % 11 == 5}
    expected = malformed | {number for number in range(2 * size) if number % 3 == 1}
    assert len(story.quarantined()) == len(expected)
