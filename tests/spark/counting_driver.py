"""A driver to be killed: streams a topic into Parquet until it has read all there is.

python tests/spark/counting_driver.py BOOTSTRAP TOPIC DIRECTORY
"""

import sys

import headrace.spark


def main() -> None:
    bootstrap, topic, directory = sys.argv[1:4]
    spark = headrace.spark.session("counting", **{"spark.master": "local[2]"})
    records = (
        spark.readStream.format("headrace")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "400")
        .load()
    )
    query = (
        records.writeStream.format("parquet")
        .queryName(f"counting-{topic}")
        .option("checkpointLocation", f"{directory}/checkpoint")
        .trigger(availableNow=True)
        .start(f"{directory}/rows")
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
