"""Batches of rows from Spark to Python that are bounded by a number of rows."""

from pathlib import Path

import pytest

from headrace.pipeline.new_project import template, write_project
from headrace.pipeline.project import FILE, load_project
from headrace.spark.errors import OptionError
from headrace.spark.sessions.row_bound import (
    BYTES_PER_BATCH,
    NOT_MEASURED,
    ROW_BYTES_MAX,
    ROWS_PER_BATCH,
    SPARKS_BYTES,
    bound_of_rows,
)


def test_spark_measures_no_batch_with_its_largest_limit_of_bytes() -> None:
    """Spark measures the batch after each row with any smaller limit."""
    assert NOT_MEASURED == 2_147_483_647


def test_spark_keeps_its_own_limits_without_the_setting() -> None:
    assert bound_of_rows({"spark.master": "local[2]"}) == {}


@pytest.mark.parametrize(
    ("size", "rows"),
    [(1, 10_000), (6710, 10_000), (6711, 9999), (65_536, 1024), ("65536", 1024), (SPARKS_BYTES, 1)],
)
def test_a_batch_has_at_most_64_mb_and_spark_s_number_of_rows(size: int | str, rows: int) -> None:
    found = bound_of_rows({ROW_BYTES_MAX: size})
    assert found == {ROWS_PER_BATCH: rows, BYTES_PER_BATCH: NOT_MEASURED}
    assert rows * int(size) <= SPARKS_BYTES


@pytest.mark.parametrize(
    "text", ["", "0", "-1", "4k", "1e3", "64.5", SPARKS_BYTES + 1, True, None, "²"]
)
def test_an_invalid_size_of_a_row_is_refused_by_name(text: object) -> None:
    with pytest.raises(OptionError, match=r"^spark\.headrace\.rowBytesMax: .* is not a number of"):
        bound_of_rows({ROW_BYTES_MAX: text})


@pytest.mark.parametrize("value", ["4096", '"4096"'])
def test_a_pipeline_declares_the_size_under_configuration(tmp_path: Path, value: str) -> None:
    settings = f'name = "shop"\n[configuration]\n"{ROW_BYTES_MAX}" = {value}\n'
    (tmp_path / "pipeline.toml").write_text(settings)
    found = bound_of_rows(load_project(tmp_path).configuration)
    assert found == {ROWS_PER_BATCH: 10_000, BYTES_PER_BATCH: NOT_MEASURED}


def test_a_new_project_declares_it_once_its_lines_are_uncommented(tmp_path: Path) -> None:
    project = tmp_path / "shop"
    write_project(project, template(), "orders")
    assert bound_of_rows(load_project(project).configuration) == {}
    settings = project / FILE
    text = settings.read_text()
    for line in ("[configuration]", f'"{ROW_BYTES_MAX}"'):
        assert text.count(f"# {line}") == 1
        text = text.replace(f"# {line}", line)
    settings.write_text(text)
    assert bound_of_rows(load_project(project).configuration)[BYTES_PER_BATCH] == NOT_MEASURED
