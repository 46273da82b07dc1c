"""The command `headrace pipeline` ended in any batch: each row is written once."""

import signal
from functools import partial
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
    count = 0
    for _ in range(2):
        process = live.start(*live.words(shop, bootstrap))
        for _ in range(4):
            topics.append(live_topic, count // 10 % 2, json_records(count, 10))
            count += 10
            least = live.events(shop / "data", "batch") + 1
            live.wait_for(partial(live.more_batches, shop, least), process)
        topics.append(live_topic, 0, json_records(count, 10))
        count += 10
        ended = live.end(process, number)
        assert ended.code == code, ended
    for _ in range(3):
        assert live.run(*live.words(shop, bootstrap, "--once")).code == 0
    assert live.ids(shop) == live.expected(count)
