"""Markers and decisions that name a manifest, and those of releases without a quarantine."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.spark.sink.decisions import Decision
from headrace.spark.tables.marker import Marker
from headrace.spark.tables.table import Table, commit, is_committed, open_table

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

from tests.support.spark.tables import FORMATS, SCHEMA, Run, offsets, rows

every_format = pytest.mark.parametrize("kind", FORMATS)


def last(run: Run) -> Marker | None:
    table = run.table
    table.reload()
    return table.last_marker()


def commit_batch(run: Run, number: int, manifest: int, *parts: pa.RecordBatch) -> bool:
    """Commit a batch that names a manifest."""
    run.plan(number, number)
    prepared = run.tasks(number, *parts)
    marker = replace(prepared.marker, quarantine=manifest)
    return commit(run.table, prepared.files, prepared.attempts, marker)


@every_format
def test_a_tables_marker_names_the_manifest_of_its_batch_only(tmp_path: Path, kind: str) -> None:
    run = Run(tmp_path, kind)
    large = (1 << 63) - 1
    assert commit_batch(run, 0, large, rows(0, 4))
    assert (last(run) or Marker("", 0)).quarantine == large
    assert commit_batch(run, 1, 0, rows(4, 4))
    found = last(run)
    assert found is not None
    assert (found.batch, found.quarantine) == (1, 0)
    assert commit_batch(run, 2, 7, rows(8, 4))
    assert (last(run) or Marker("", 0)).quarantine == 7


@every_format
def test_a_batch_without_rows_is_committed_if_it_names_a_manifest(
    tmp_path: Path, kind: str
) -> None:
    run = Run(tmp_path, kind)
    commit_batch(run, 0, 0, rows(0, 4))
    assert commit_batch(run, 1, 0)
    assert (last(run) or Marker("", 9)).batch == 0
    assert commit_batch(run, 2, 5)
    found = last(run)
    assert found is not None
    assert (found.batch, found.quarantine) == (2, 5)
    assert not commit_batch(run, 2, 6)
    assert (last(run) or Marker("", 0)).quarantine == 5
    assert commit_batch(run, 3, 0, rows(4, 4))
    assert offsets(run.path, kind) == list(range(8))


@every_format
def test_a_first_batch_without_rows_names_its_manifest(tmp_path: Path, kind: str) -> None:
    run = Run(tmp_path, kind)
    assert commit_batch(run, 0, 5)
    assert (last(run) or Marker("", 9)).quarantine == 5
    assert open_table(run.table, SCHEMA).location


def test_an_upserted_table_commits_a_batch_without_rows(tmp_path: Path) -> None:
    run = Run(tmp_path, "delta", upsertBy="key", mergeEvery=0)
    commit_batch(run, 0, 0, rows(0, 4))
    before = offsets(run.path, "delta")
    assert commit_batch(run, 1, 5)
    assert (last(run) or Marker("", 0)).quarantine == 5
    assert offsets(run.path, "delta") == before


@every_format
def test_the_table_says_whether_it_has_a_batch(tmp_path: Path, kind: str) -> None:
    run = Run(tmp_path, kind)
    run.plan(0, 4)
    prepared = run.tasks(0, rows(0, 4))
    table: Table = run.table
    assert not is_committed(table, prepared.marker)
    prepared.commit()
    assert is_committed(table, prepared.marker)
    run.plan(1, 8)
    assert not is_committed(table, run.tasks(1, rows(4, 4)).marker)


def test_markers_of_older_releases_name_no_manifest() -> None:
    older: dict[str, Any] = {"batch": 4, "digest": 5, "query": 6, "columns": 7, "ends": ["{}"]}
    marker = Marker.of_json("p", json.dumps(older))
    assert marker == Marker("p", 4, 5, 6, 7, ("{}",), 0)
    assert json.loads(marker.to_json()) == older
    named = replace(marker, quarantine=9)
    assert Marker.of_json("p", named.to_json()) == named


def test_decisions_of_older_releases_name_no_manifest() -> None:
    older = {"query": "q", "batch": 4, "digest": "d", "positions": "", "transactions": []}
    decision = Decision(**older)  # type: ignore[arg-type]
    assert decision.quarantine is None
    assert asdict(replace(decision, quarantine=3)) == {**older, "quarantine": 3}
