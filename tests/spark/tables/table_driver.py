"""A driver to be killed: streams a topic into a table until it has written all there is.

python tests/spark/tables/table_driver.py BOOTSTRAP TOPIC DIRECTORY FORMAT
"""

import sys

import headrace.spark


def main() -> None:
    bootstrap, topic, directory, kind = sys.argv[1:5]
    spark = headrace.spark.session("table", **{"spark.master": "local[2]"})
    records = (
        spark.readStream.format("headrace")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "400")
        .load()
    )
    writer = records.writeStream.format("headrace-table").queryName(f"table-{topic}")
    if kind == "iceberg":
        writer = writer.option("table", "sales.orders")
    query = (
        writer.option("tableFormat", kind)
        .option("mergeEvery", "4")
        .option("checkpointLocation", f"{directory}/checkpoint")
        .trigger(availableNow=True)
        .start(f"{directory}/table")
    )
    query.awaitTermination()
    if kind == "parquet":  # a job without rows shows what waits to be merged
        rows = spark.createDataFrame([], records.schema).write.format("headrace-table")
        rows.options(tableFormat=kind, shared=True).mode("append").save(f"{directory}/table")
    spark.stop()


if __name__ == "__main__":
    main()
