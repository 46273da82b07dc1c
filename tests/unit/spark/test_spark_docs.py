"""The pages of Spark's side name every option that is taken."""

from pathlib import Path

import pytest

from headrace.spark.sink import sink_options
from headrace.spark.source import kafka_options, options
from headrace.spark.tables import options as table_options

DOCS = Path(__file__).resolve().parents[3] / "docs"
SPARKS_OWN = {"path", "queryName"}
"""Of a topic's sink: Spark puts them in whether they are asked for or not."""


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("spark.md", {*options._NAMES, *kafka_options.USED}),
        ("spark-sink.md", {*sink_options._OURS, *sink_options._KAFKA} - SPARKS_OWN),
        ("spark-tables.md", set(table_options._NAMES)),
    ],
)
def test_every_option_is_in_its_page(page: str, names: set[str]) -> None:
    text = (DOCS / page).read_text()
    missing = sorted(name for name in names if name not in text)
    assert not missing
