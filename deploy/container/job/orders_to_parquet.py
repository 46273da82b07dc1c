"""The job of compose.yaml: topic `orders` to Parquet files, each record once, until it is ended."""

import os

import headrace.spark

PLACE = os.environ.get("JOB_PLACE", "/var/lib/headrace")

spark = headrace.spark.session("orders_to_parquet")
orders = (
    spark.readStream.format("headrace")
    .option("kafka.bootstrap.servers", os.environ["HEADRACE_BOOTSTRAP"])
    .option("subscribe", "orders")
    .option("startingOffsets", "earliest")
    .load()
)
query = (
    orders.selectExpr("cast(value as string) as value", "timestamp", "partition", "offset")
    .writeStream.format("parquet")
    .option("path", f"{PLACE}/orders")
    .option("checkpointLocation", f"{PLACE}/checkpoint")
    .queryName("orders_to_parquet")
    .trigger(processingTime="10 seconds")
    .start()
)
query.awaitTermination()
