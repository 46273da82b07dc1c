"""The command `headrace pipeline` ended in any batch: each row is written once."""

import signal
from pathlib import Path

import pytest

from tests.spark.kit import Topics
from tests.spark.long import long_only
from tests.spark.pipeline import live
from tests.spark.pipeline.run_projects import json_records

pytestmark = long_only


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 0), (signal.SIGINT, 130), (signal.SIGKILL, -9)],
)
def test_runs_that_are_ended_in_any_batch_write_each_row_once(
    shop: Path, bootstrap: str, topics: Topics, live_topic: str, number: signal.Signals, code: int
) -> None:
    """Rule 15: after three more runs the tables are what a batch job over the offsets gives."""

    def send(partition: int, first: int) -> None:
        topics.append(live_topic, partition, json_records(first, 10))

    count, ended = live.end_in_batches(live.words(shop, bootstrap), shop, send, number)
    assert [each.code for each in ended] == [code, code], ended
    assert live.ids(shop) == live.expected(count)
