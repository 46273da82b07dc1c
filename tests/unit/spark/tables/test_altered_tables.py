"""Tables that others wrote to or altered between our batches: merges lose and change nothing."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.io.pyarrow import parquet_file_to_data_file, schema_to_pyarrow
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import StringType

from headrace.spark.errors import OptionError
from headrace.spark.tables.partition import PartitionField, directory_of
from tests.support.spark.tables import (
    FORMATS,
    Run,
    held,
    iceberg_table,
    offsets,
    parquet_files,
    read,
    rows,
    write,
)

DEEP = pa.struct([("name", pa.string())])
ITEM = pa.struct([("name", pa.string()), ("count", pa.int32()), ("deep", DEEP)])
NESTED = pa.schema([("offset", pa.int64()), ("item", ITEM), ("items", pa.list_(ITEM)),
                    ("by_name", pa.map_(pa.string(), ITEM)), ("text", pa.string())])  # fmt: skip


def nested(first: int, schema: pa.Schema = NESTED) -> pa.RecordBatch:
    """Two rows, the second without anything."""
    kind = schema.field(1).type
    deep = {kind.field("deep").type.field(0).name: "d"}
    item = dict(zip([field.name for field in kind], ["a", first, deep], strict=True))
    columns: list[list[Any]] = [
        [first, first + 1], [item, None], [[item, None], None], [[("k", item)], None],
        [f"t{first}", None],
    ]  # fmt: skip
    arrays = [pa.array(values, kind.type) for values, kind in zip(columns, schema, strict=True)]
    return pa.record_batch(arrays, schema=schema)


def test_what_spark_appends_to_an_iceberg_table_is_merged_too(tmp_path: Path) -> None:
    run = Run(tmp_path, "iceberg", mergeEvery=2)
    run.batch(0, 0, 10)
    table = iceberg_table(run.path)
    theirs = Path(table.location().removeprefix("file://")) / "data" / "00000-theirs.parquet"
    schema = schema_to_pyarrow(table.schema())
    pq.write_table(pa.Table.from_batches([rows(100, 10)]).cast(schema), theirs)
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as added:
        # Hadoop writes a local file's URI with one slash.
        added.append_data_file(
            parquet_file_to_data_file(table.io, table.metadata, f"file:{theirs}")
        )
    assert "data/00000-theirs.parquet" in held(run)
    run.batch(1, 10, 10)
    assert len(held(run)) == 1
    assert offsets(run.path, "iceberg") == [*range(20), *range(100, 110)]


def test_columns_that_were_renamed_keep_their_values_in_a_merge(tmp_path: Path) -> None:
    run = Run(tmp_path, "iceberg", mergeEvery=2)
    write(run, 0, nested(0))
    with iceberg_table(run.path).update_schema() as change:
        for old, new in (
            ("text", "words"), ("item", "thing"), ("item.name", "title"),
            ("items.element.name", "title"), ("by_name.value.name", "title"),
            ("item.deep.name", "title"), ("items.element.deep.name", "title"),
            ("by_name.value.deep.name", "title"),
        ):  # fmt: skip
            change.rename_column(old, new)
    before = read(run.path, "iceberg").to_pylist()
    deep = pa.struct([("title", pa.string())])
    item = pa.struct([("title", pa.string()), ("count", pa.int32()), ("deep", deep)])
    kinds = [pa.int64(), item, pa.list_(item), pa.map_(pa.string(), item), pa.string()]
    names = ["offset", "thing", "items", "by_name", "words"]
    write(run, 1, nested(2, pa.schema(list(zip(names, kinds, strict=True)))))
    assert len(held(run)) == 1
    merged = sorted(read(run.path, "iceberg").to_pylist(), key=lambda row: row["offset"])
    assert before[0]["thing"] == {"title": "a", "count": 0, "deep": {"title": "d"}}
    assert merged[:2] == before
    assert merged[2]["items"] == [{"title": "a", "count": 2, "deep": {"title": "d"}}, None]


def test_a_column_that_was_dropped_and_made_again_stays_null_in_a_merge(tmp_path: Path) -> None:
    run = Run(tmp_path, "iceberg", mergeEvery=2)
    write(run, 0, nested(0))
    for change in ("drop", "add"):
        with iceberg_table(run.path).update_schema() as schema:
            for column in ("text", ("item", "name"), ("items", "element", "name")):
                if change == "drop":
                    schema.delete_column(column)
                else:
                    schema.add_column(column, StringType())
    other = Run(tmp_path, "iceberg", mergeEvery=2, pipeline="other", shared=True)
    write(other, 1, nested(2).select(["offset"]))
    assert len(held(run)) == 1
    first = min(read(run.path, "iceberg").to_pylist(), key=lambda row: row["offset"])
    kept = {"count": 0, "deep": {"name": "d"}, "name": None}
    assert (first["text"], first["item"], first["items"]) == (None, kept, [kept, None])


def test_files_partitioned_as_the_table_was_before_are_left_and_others_are_merged(
    tmp_path: Path,
) -> None:
    run = Run(tmp_path, "iceberg", mergeEvery=9)
    run.batch(0, 0, 10)
    with iceberg_table(run.path).update_spec() as spec:
        spec.add_field("partition", IdentityTransform(), "partition")
    old = held(run)
    after = Run(tmp_path, "iceberg", mergeEvery=2, partitionBy="partition")
    after.batch(1, 10, 10)
    assert old < held(after)
    assert len(held(after)) == len(old) + 1
    assert offsets(run.path, "iceberg") == list(range(20))


def test_a_merge_is_a_replace_which_readers_of_changes_pass_over(tmp_path: Path) -> None:
    run = Run(tmp_path, "iceberg", mergeEvery=2)
    for number in range(4):
        run.batch(number, number * 10, 10)
    snapshots = iceberg_table(run.path).snapshots()
    operations = [snapshot.summary and snapshot.summary.operation.value for snapshot in snapshots]
    assert operations == ["append", "append", "replace", "append", "append", "replace"]
    last = snapshots[-1].summary
    assert last is not None
    totals = [last[f"total-{what}"] for what in ("records", "data-files", "delete-files")]
    assert totals == ["40", "1", "0"]


@pytest.mark.parametrize("kind", FORMATS)
def test_a_path_may_have_any_letters(tmp_path: Path, kind: str) -> None:
    (tmp_path / "a b%ü+&=").mkdir()
    run = Run(tmp_path / "a b%ü+&=", kind, mergeEvery=2, partitionBy="partition")
    run.batch(0, 0, 10)
    run.batch(1, 10, 10)
    assert offsets(run.path, kind) == list(range(20))
    assert {path.name for path in tmp_path.iterdir()} == {"a b%ü+&="}
    assert parquet_files(run.path)


@pytest.mark.parametrize("letter", "#?")
def test_a_warehouse_that_icebergs_uris_cannot_name_is_refused(tmp_path: Path, letter: str) -> None:
    (tmp_path / f"a{letter}b").mkdir()
    with pytest.raises(OptionError, match=r"path: .* has # or \?"):
        Run(tmp_path / f"a{letter}b", "iceberg").batch(0, 0, 10)
    assert not (tmp_path / "a").exists()


def test_texts_in_paths_are_escaped_as_hive_does() -> None:
    fields = [PartitionField("region"), PartitionField("time", by_day=True)]
    texts = ("aü b+-_.~@$&(),;<>|!`€😀", "2026-11-24")
    assert directory_of(fields, texts) == f"region={texts[0]}/time_day=2026-11-24"
    escaped = "".join(f"%{ord(letter):02X}" for letter in "\"#%'*/:=?\\{[]^\x7f\x01\x1f\n")
    assert directory_of(fields[:1], ("\"#%'*/:=?\\{[]^\x7f\x01\x1f\n",)) == f"region={escaped}"
    assert directory_of(fields[:1], (None,)) == "region=__HIVE_DEFAULT_PARTITION__"


def test_empty_texts_and_nulls_of_a_delta_table_are_merged_together(tmp_path: Path) -> None:
    run = Run(tmp_path, "delta", partitionBy="text", mergeEvery=2)
    for batch, texts in enumerate([["", "a"], [None, ""]]):
        columns = [pa.array([0, 1]), pa.array(texts, pa.string())]
        write(run, batch, pa.record_batch(columns, names=["offset", "text"]))
    found = sorted(read(run.path, "delta").column("text").to_pylist(), key=str)
    assert found == [None, None, None, "a"]
    assert len(DeltaTable(str(run.path)).file_uris()) == 2
