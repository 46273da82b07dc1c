"""Real drivers that write topics and a table, killed at points: `make spark-kills` in small."""

from pathlib import Path

import pytest

from tests.spark.kit import Topics
from tests.spark.long import long_only
from tests.spark.standalone import StandaloneCluster
from tests.spark_kills.live_story import SLOW, LiveStory


@long_only
@pytest.mark.timeout(1800)
def test_what_killed_drivers_leave_is_in_topics_and_table_once(
    topics: Topics, tmp_path: Path
) -> None:
    story = LiveStory(topics, tmp_path / "live", 1)
    for point in ("topic: between ends", "table: after the table commit", "table: after the merge"):
        story.play(point)
    story.complete()


@long_only
@pytest.mark.timeout(1800)
def test_of_two_drivers_at_once_the_older_stops_with_one_sentence(
    topics: Topics, tmp_path: Path
) -> None:
    story = LiveStory(topics, tmp_path / "live", 1)
    said = story.overtake("topic: before the decision")
    assert "a newer run of this pipeline has begun; let one run alone" in said
    story.complete()


@long_only
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("point", ["topic: mid-produce", "table: mid-write"])
def test_of_two_attempts_at_one_task_that_spark_begins_one_has_an_effect(
    topics: Topics, tmp_path: Path, point: str
) -> None:
    story = LiveStory(topics, tmp_path / "live", 1)
    with StandaloneCluster(tmp_path) as cluster:
        for action in SLOW:
            story.speculate(point, action, cluster.master)
    story.complete()
