"""Spark writes Parquet, Delta and Iceberg tables, each micro-batch exactly once, without a jar.

(
    orders.writeStream.format("headrace-table")
    .queryName("orders")
    .option("tableFormat", "delta")
    .option("checkpointLocation", "/data/checkpoints/orders")
    .start("/data/orders")
)

sink.py       the DataSource: stream and batch writers
options.py    every option by name, validated before anything else happens
marker.py     the pipeline's last batch, stored in the table; decides whether to write a batch
partition.py  partition columns: rows to directories
files.py      a task: Parquet files, each first listed under its attempt
attempts.py   lists of files by attempt; files of dead attempts are deleted
table.py      the interface of each format, and the commit: marker, conflicts, retries
merge.py      small files: which are merged, and how they are rewritten
parquet.py    delta.py    iceberg.py    the three formats
upserts/      upserts by key into Delta; tombstones delete
new_columns.py  columns that a query adds to the table, and changes that are refused
"""
