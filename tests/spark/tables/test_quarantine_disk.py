"""A full disk below the spool: one error, and the batch is whole afterwards."""

from pathlib import Path
from typing import Any

import pytest

from headrace.model.nouns import TopicPartition
from headrace.spark.errors import SourceError
from headrace.spark.quarantine.manifest import read_manifest, write_manifest
from headrace.spark.quarantine.refused import SCHEMA
from headrace.spark.quarantine.sink_batch import QuarantinedBatch
from headrace.spark.quarantine.spool import BatchRun, RangeSpool, Spool
from tests.support.spark.tables import fill
from tests.unit.spark.quarantine.test_spool_and_manifest import PLANNED

AT = BatchRun("q", 0, "run")
ROWS: Any = [
    {
        "topic": "t", "partition": 0, "offset": offset, "timestamp": 0, "key": None,
        "value": bytes(1000), "headers": [], "stage": "decode", "reason": "r", "field": "",
        "schema": "aa", "attempt": 1,
    }
    for offset in range(500)
]  # fmt: skip


def spooled(spool: Spool) -> None:
    import pyarrow as pa

    range_ = RangeSpool(spool, AT, TopicPartition("t", 0), (0, 500), "aa", PLANNED)
    try:
        range_.add(pa.RecordBatch.from_pylist(ROWS, SCHEMA))
        range_.finish(500)
    finally:
        range_.discard()


def test_a_full_disk_in_the_spool_is_one_error_and_the_range_is_spooled_afterwards(
    small_disk: Path,
) -> None:
    """Rule 24: the first full disk stops the batch with one sentence."""
    spool = Spool(str(small_disk / "spool"), "orders")
    spool.announce_sink("q")
    filler = small_disk / "filler"
    fill(filler, leave=65536)
    with pytest.raises(SourceError, match=r"no space is left for refused records at .*t-0: noth"):
        spooled(spool)
    assert write_manifest(spool, AT) is None
    filler.unlink()
    spooled(spool)
    manifest = write_manifest(spool, AT)
    assert manifest is not None
    assert len(list(read_manifest(manifest.path))) == 500


def test_a_full_disk_under_the_manifest_is_one_error(small_disk: Path) -> None:
    spool = Spool(str(small_disk / "spool"), "orders")
    spool.announce_sink("q")
    spooled(spool)
    filler = small_disk / "filler"
    fill(filler, leave=65536)
    options: Any = type("Options", (), {"spool": spool, "share_max": 1.0, "records_min": 1000})
    with pytest.raises(SourceError, match="no space is left for refused records"):
        QuarantinedBatch(options, "q", 0).collect({"run"})
    assert not list((small_disk / "spool/orders/q").glob(".0.*"))
    filler.unlink()
    options.pipeline = "p"
    assert QuarantinedBatch(options, "q", 0).collect({"run"})
