"""Bad days: a full disk, a run that is killed at any line, a log that cannot be read."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from headrace.spark.errors import OptionError
from headrace.spark.tables.attempts import Attempt
from headrace.spark.tables.errors import TableError
from headrace.spark.tables.files import FileWriter
from headrace.spark.tables.table import open_table
from tests.support.spark.tables import FORMATS, SCHEMA, Run, fill, offsets, rows

every_format = pytest.mark.parametrize("kind", FORMATS)


@every_format
def test_a_full_disk_is_one_error_and_the_batch_is_whole_afterwards(
    small_disk: Path, kind: str
) -> None:
    run = Run(small_disk, kind)
    run.batch(0, 0, 10)
    run.plan(1, 20)
    filler = small_disk / "filler"
    fill(filler, leave=0)
    with pytest.raises(TableError, match="no space is left"):
        run.batch(1, 10, 10)
    filler.unlink()
    assert run.batch(1, 10, 10)
    assert offsets(run.path, kind) == list(range(20))


@every_format
@pytest.mark.parametrize("left", [0, 4096])
def test_a_disk_that_fills_during_the_commit_is_one_error_and_the_batch_is_whole_afterwards(
    small_disk: Path, kind: str, left: int
) -> None:
    run = Run(small_disk, kind)
    run.batch(0, 0, 10)
    run.plan(1, 20)
    prepared = run.tasks(1, rows(10, 10))
    filler = small_disk / "filler"
    fill(filler, leave=left)
    with (
        pytest.raises(TableError, match=r"start\s(the query|again)")
        if not left
        else suppress(TableError)
    ):
        prepared.commit()
    filler.unlink()
    run.batch(1, 10, 10)
    assert offsets(run.path, kind) == list(range(20))


@every_format
@pytest.mark.parametrize("line", [1, 2, 3, 5, 8])
def test_killed_at_any_step_of_the_commit_the_batch_is_there_once(
    tmp_path: Path, kind: str, line: int
) -> None:
    """Killed where it opens, renames or removes a file, or makes a directory, so many times."""
    run = Run(tmp_path, kind)
    run.batch(0, 0, 10)
    script = (
        "import sys; from pathlib import Path; from tests.spark.tables.killed import main; "
        "main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path), kind, str(line)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sys.path))},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode in ((9,) if line == 1 else (0, 9)), done.stderr
    run.batch(1, 10, 10)
    run.batch(2, 20, 10)
    assert offsets(run.path, kind) == list(range(30))
    lists = list(tmp_path.rglob("_headrace/attempts/*"))
    assert not lists


@every_format
def test_a_table_that_goes_between_tasks_and_commit_is_one_error(tmp_path: Path, kind: str) -> None:
    run = Run(tmp_path, kind)
    run.batch(0, 0, 10)
    run.plan(1, 20)
    prepared = run.tasks(1, rows(10, 10))
    run.path.rename(tmp_path / "away")
    with pytest.raises(TableError, match=r"^there is no table at .* any more: bring it back"):
        prepared.commit()
    assert not run.path.exists()
    (tmp_path / "away").rename(run.path)
    prepared.commit()
    assert offsets(run.path, kind) == list(range(20))


@every_format
def test_tasks_write_nothing_where_the_table_has_gone(tmp_path: Path, kind: str) -> None:
    """A mount that is lost, say: what is written then fills another disk, and is never found."""
    run = Run(tmp_path, kind)
    run.batch(0, 0, 10)
    layout = open_table(run.table, SCHEMA)
    run.path.rename(tmp_path / "away")
    writer = FileWriter(layout, Attempt(layout.location, "orders", 1))
    with pytest.raises(TableError, match=r"^there is no table at .* any more: bring it back"):
        writer.write_all([rows(10, 10)])
    assert not run.path.exists()


def test_a_table_whose_files_have_gone_and_whose_catalog_has_not_is_one_error(
    tmp_path: Path,
) -> None:
    path = (tmp_path / "table").as_uri()
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/cat.db", "warehouse": path}
    own = {f"catalog.{name}": value for name, value in catalog.items()}
    run = Run(tmp_path, "iceberg", **own)
    run.batch(0, 0, 10)
    run.plan(1, 20)
    prepared = run.tasks(1, rows(10, 10))
    run.path.rename(tmp_path / "away")
    with pytest.raises(TableError, match=r"^there is no table at .* any more: bring it back"):
        prepared.commit()
    with pytest.raises(TableError, match=r"^there is no table at .* any more: bring it back"):
        run.batch(1, 10, 10)


def test_a_directory_that_holds_other_files_is_refused(tmp_path: Path) -> None:
    run = Run(tmp_path, "parquet")
    run.path.mkdir()
    (run.path / "other.parquet").write_bytes(b"")
    with pytest.raises(TableError, match="no commit of ours names"):
        run.batch(0, 0, 10)


def test_a_checkpoint_that_cannot_be_read_is_one_error(tmp_path: Path) -> None:
    run = Run(tmp_path, "parquet")
    prepared = run.tasks(7, rows(0, 10))
    with pytest.raises(TableError, match="offsets/7 cannot be read"):
        prepared.commit()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"tableFormat": "avro"}, "tableFormat: 'avro' is not one of parquet, delta, iceberg"),
        ({"path": ""}, "path: missing"),
        ({"path": "s3://bucket/orders"}, "path: 's3://bucket/orders' is not a directory"),
        ({"pipeline": ""}, "pipeline: missing"),
        ({"checkpointLocation": ""}, "checkpointLocation: missing"),
        ({"txnAppId": "a"}, "txnAppId: is for batch jobs"),
        ({"partitionBy": "hour(timestamp)"}, "neither a column nor day"),
        ({"partitionBy": "nowhere"}, "there is no column 'nowhere'"),
        ({"partitionBy": "value"}, "value is binary"),
        ({"partitionBy": "day(offset)"}, "needs a timestamp"),
        ({"partitionBy": "offset,offset"}, "names a column twice"),
        ({"mergeevry": "3"}, "did you mean mergeEvery"),
        ({"mergeEvery": "-1"}, "less than 0"),
        ({"upsertBy": "key"}, "upsertBy: is for tableFormat=delta"),
        ({"table": "x.y"}, "table: is for tableFormat=iceberg"),
    ],
)
def test_an_option_that_cannot_be_is_one_sentence(
    tmp_path: Path, changed: dict[str, str], message: str
) -> None:
    run = Run(tmp_path, "parquet")
    run.options |= changed
    with pytest.raises(OptionError, match=message.replace("(", "\\(").replace(")", "\\)")):
        run.batch(0, 0, 10)
