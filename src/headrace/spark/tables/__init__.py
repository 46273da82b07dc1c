"""Tables: rows from Spark into Parquet, Delta and Iceberg, each batch exactly once, without a jar.

(
    orders.writeStream.format("headrace-table")
    .queryName("orders")
    .option("tableFormat", "delta")
    .option("checkpointLocation", "/data/checkpoints/orders")
    .start("/data/orders")
)

sink.py       the DataSource: stream and batch writers
options.py    every option by name, checked before anything else happens
marker.py     what a table remembers of a pipeline; decides whether a batch is to be written
partition.py  partition columns: rows to their directories
files.py      what a task does: Parquet files, each named in its attempt's list first
attempts.py   lists of files by attempt; what dead attempts left is swept
table.py      what each format must do, and the commit around it: marker, conflict, try again
merge.py      small files: which are taken together, and their rows written anew
parquet.py    delta.py    iceberg.py    the three formats
upsert.py     rows by key into Delta; tombstones delete
"""
