"""The examples of docs/arrow.md run as they stand."""

import contextlib
import re
from pathlib import Path
from typing import Any

import pytest

from headrace.config.log_config import LogConfig
from headrace.model.nouns import LeaderEpoch, TopicPartition
from headrace.record import batch as wire
from tests.support.client.open_topic import flush, pour
from tests.support.log.log import NOW_MS, World

PAGE = (Path(__file__).parents[3] / "docs/arrow.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
PAYMENTS = [b'{"id":1,"amount":2.5}', b'{"id":2,"amount":"12,30"}']
CUSTOMERS = [b"anna", b"ben", b"anna", b"carl"]


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    world = World(config=LogConfig())
    written = {
        "orders": [wire.Record(0, NOW_MS, name, b"1", ()) for name in CUSTOMERS],
        "payments": [wire.Record(0, NOW_MS, None, value, ()) for value in PAYMENTS],
    }
    for topic, records in written.items():
        place = TopicPartition(topic, 0)
        log = world.directory.create_log(place, topic.encode().ljust(16), world.config)
        view = memoryview(bytearray(wire.build(records)))
        log.append(view, wire.parse_header(view), LeaderEpoch(0), NOW_MS)
        flush(world, log)
    pour(world.disk, "/data", tmp_path / "headrace-data")
    world.close()
    return tmp_path


def last_value(example: str) -> Any:
    """What the example's last line gives, the imports of the first one done."""
    *before, last = example.strip().splitlines()
    names: dict[str, Any] = {}
    exec("\n".join(["import duckdb, headrace.arrow", *before]), names)
    name, equals, expression = last.partition(" = ")
    return eval(expression if equals and name.isidentifier() else last, names)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_every_example_gives_the_rows(orders: Path) -> None:
    assert len(EXAMPLES) == 5
    with contextlib.chdir(orders):
        table, counted, polars_frame, pandas_frame, typed = map(last_value, EXAMPLES)
        assert typed.fetchall() == [(1, 2.5, 0), (None, None, 1)]
        assert counted.fetchall() == [("anna", 2), ("ben", 1), ("carl", 1)]
    assert table["key"].to_pylist() == CUSTOMERS
    assert polars_frame["key"].to_list() == CUSTOMERS
    assert list(pandas_frame["key"]) == CUSTOMERS
    assert list(pandas_frame["topic"]) == ["orders"] * 4
