"""Options of the quarantine, of the source and of the sinks."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import StructType

from headrace.spark.errors import OptionError
from headrace.spark.quarantine.spool import Spool
from headrace.spark.sink.sink_options import parse_sink_options
from headrace.spark.source.batch_reader import BatchReader
from headrace.spark.source.columns import columns_of, schema_of
from headrace.spark.source.options import Options, parse_options
from headrace.spark.tables.options import TableOptions, parse_table_options

SOURCE = {
    "kafka.bootstrap.servers": "localhost:1", "subscribe": "t", "valueSchema": "id BIGINT",
    "mode": "quarantine", "quarantineSpool": "/spool", "quarantineFlow": "orders",
    "quarantinePipeline": "shop",
}  # fmt: skip
TABLE = {
    "tableFormat": "delta", "path": "/t", "pipeline": "shop", "checkpointLocation": "/c",
    "quarantineSpool": "/spool", "quarantineFlow": "orders",
    "kafka.bootstrap.servers": "localhost:1",
}  # fmt: skip
TOPIC = {
    "topic": "t", "pipeline": "shop", "checkpointLocation": "/c",
    "quarantineSpool": "/spool", "quarantineFlow": "orders",
    "kafka.bootstrap.servers": "localhost:1",
}  # fmt: skip


def changed(options: dict[str, str], given: dict[str, str | None]) -> dict[str, str]:
    """The options with these set, or left out if None."""
    both = {**options, **given}
    return {name: value for name, value in both.items() if value is not None}


def source(**given: str | None) -> Options:
    return parse_options(changed(SOURCE, given), streaming=True)


def table(**given: str | None) -> TableOptions:
    return parse_table_options(changed(TABLE, given), streaming=True)


def test_a_source_reads_the_whole_record_and_rows_stay_as_they_are() -> None:
    options = source()
    assert options.quarantine is not None
    assert options.quarantine.spool == Spool("/spool", "orders")
    assert (options.quarantine.pipeline, options.quarantine.retention_ms) == ("shop", 2_592_000_000)
    schema = schema_of(options)
    assert schema.names == ["id", "_partition", "_offset", "_timestamp"]
    assert set(columns_of(options, schema).names) == {
        "value", "offset", "key", "timestamp", "headers", "partition",
    }  # fmt: skip
    other = source(valueSchema="id STRING").quarantine
    assert other is not None
    assert other.schema_digest != options.quarantine.schema_digest


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"quarantineSpool": None}, "needs quarantineSpool, quarantineFlow and"),
        ({"quarantineFlow": None}, "needs quarantineSpool, quarantineFlow and"),
        ({"quarantinePipeline": None}, "quarantinePipeline: '' must be"),
        ({"quarantineSpool": "spool"}, "'spool' is not an absolute path"),
        ({"quarantineFlow": "a.b"}, "quarantineFlow: 'a.b' must be"),
        ({"quarantineRetentionMs": "0"}, "quarantineRetentionMs: 0 is less"),
        ({"mode": "FAILFAST"}, "quarantineSpool: only with mode=QUARANTINE"),
        ({"valueSchema": None, "mode": None}, "quarantineSpool: only with valueSchema"),
    ],
)
def test_invalid_options_of_the_source_are_refused(
    given: dict[str, str | None], reason: str
) -> None:
    with pytest.raises(OptionError, match=reason):
        source(**given)


def test_a_batch_read_has_no_quarantine() -> None:
    with pytest.raises(OptionError, match="QUARANTINE is for streaming queries"):
        BatchReader(parse_options(SOURCE, streaming=False), StructType())


def test_a_table_takes_the_brokers_of_its_quarantine() -> None:
    quarantine = table().quarantine
    assert quarantine is not None
    assert (quarantine.pipeline, quarantine.bootstrap) == ("shop", "localhost:1")
    assert (quarantine.share_max, quarantine.records_min) == (0.5, 1000)
    other = table(quarantineShareMax="0.01", quarantineRecordsMin="7").quarantine
    assert other is not None
    assert (other.share_max, other.records_min) == (0.01, 7)
    assert (quarantine.counts, other.counts) == (None, None)
    named = table(
        pipeline="shop.orders", quarantinePipeline="shop-prod", quarantineCounts="/counts"
    )
    assert named.quarantine is not None
    assert named.pipeline == "shop.orders", "the table knows it by another name"
    assert (named.quarantine.pipeline, named.quarantine.counts) == ("shop-prod", Path("/counts"))
    plain = table(quarantineSpool=None, quarantineFlow=None, **{"kafka.bootstrap.servers": None})
    assert plain.quarantine is None


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"quarantineFlow": None}, "quarantineSpool needs quarantineFlow"),
        ({"kafka.bootstrap.servers": None}, r"kafka\.bootstrap\.servers: missing"),
        ({"pipeline": "a b"}, "pipeline: 'a b': with quarantineSpool the name is part"),
        ({"pipeline": "a.b"}, "pipeline: 'a.b': .* or give quarantinePipeline"),
        ({"quarantinePipeline": "a.b"}, "quarantinePipeline: 'a.b' must be"),
        ({"quarantineCounts": "counts"}, "quarantineCounts: 'counts' is not an absolute path"),
        ({"quarantineShareMax": "0"}, "quarantineShareMax: '0' is not a share"),
        ({"quarantineShareMax": "nan"}, "quarantineShareMax: 'nan' is not a share"),
        ({"quarantineShareMax": "all"}, "quarantineShareMax: 'all' is not a share"),
        (
            {"quarantineSpool": None, "kafka.bootstrap.servers": None},
            "quarantineFlow: only with mode=QUARANTINE of the source and quarantineSpool",
        ),
        (
            {"quarantineSpool": None, "quarantineFlow": None},
            r"kafka\.bootstrap\.servers: no such option",
        ),
    ],
)
def test_invalid_options_of_a_sink_are_refused(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(OptionError, match=reason):
        table(**given)


def test_a_topic_sink_publishes_a_quarantine_only_exactly_once() -> None:
    assert parse_sink_options(TOPIC, streaming=True).quarantine is not None
    with pytest.raises(OptionError, match="delivery=exactly_once"):
        parse_sink_options({**TOPIC, "delivery": "at_least_once"}, streaming=True)
    with pytest.raises(OptionError, match="only streaming queries"):
        parse_sink_options(changed(TOPIC, {"checkpointLocation": None}), streaming=False)
