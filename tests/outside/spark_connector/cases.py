"""What the connector does in a Spark of its own. Prints one JSON object: verdicts by case."""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

ROWS = 10_000
REAL_TIME_SECONDS_MAX = 60


class Cases:
    """The cases, each on topics of its own."""

    def __init__(self, spark: SparkSession, bootstrap: str, directory: Path) -> None:
        self.spark, self.bootstrap, self.directory = spark, bootstrap, directory

    def records(self, first: int, count: int) -> DataFrame:
        return self.spark.range(first, first + count).select(
            sf.encode(sf.concat(sf.lit("k"), sf.col("id") % 10), "utf-8").alias("key"),
            sf.encode(sf.col("id").cast("string"), "utf-8").alias("value"),
        )

    def write(self, topic: str, first: int, count: int) -> None:
        writer = self.records(first, count).write.format("kafka").option("topic", topic)
        writer.option("kafka.bootstrap.servers", self.bootstrap).save()

    def read(self, topic: str, **options: Any) -> list[int]:
        reader = self.spark.read.format("kafka").options(subscribe=topic, **options)
        rows = reader.option("kafka.bootstrap.servers", self.bootstrap).load()
        return sorted(int(row.value) for row in rows.select("value").collect())

    def stream(self, topic: str, **options: Any) -> DataFrame:
        reader = self.spark.readStream.format("kafka").options(subscribe=topic, **options)
        reader = reader.option("kafka.bootstrap.servers", self.bootstrap)
        return reader.option("startingOffsets", "earliest").load()

    def sink_and_batch(self) -> None:
        """What the sink writes is what a batch reads."""
        self.write("batch", 0, ROWS)
        assert self.read("batch") == list(range(ROWS))
        assert self.read("batch", minPartitions=7) == list(range(ROWS))

    def transactional_isolation(self) -> None:
        """Reading committed records goes by our last stable offset."""
        self.write("isolated", 0, 500)
        options = {"kafka.isolation.level": "read_committed"}
        assert self.read("isolated", **options) == list(range(500))

    def by_time(self) -> None:
        """Offsets by timestamp start where the records are as late."""
        self.write("timed", 0, 100)
        time.sleep(0.1)
        between = int(time.time() * 1000)
        time.sleep(0.1)
        self.write("timed", 100, 100)
        assert self.read("timed", startingTimestamp=between) == list(range(100, 200))

    def stream_to_topic(self) -> None:
        """A stream from topic to topic goes on from its checkpoint."""
        for first in (0, ROWS):
            self.write("from", first, ROWS)
            writer = self.stream("from", maxOffsetsPerTrigger=3000).select("key", "value")
            query = (
                writer.writeStream.format("kafka")
                .option("kafka.bootstrap.servers", self.bootstrap)
                .option("topic", "to")
                .option("checkpointLocation", str(self.directory / "check"))
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination(120)
        assert self.read("to") == list(range(2 * ROWS))

    def real_time(self) -> None:
        """Real-Time Mode, stateless, from topic to topic."""
        self.write("live", 0, 100)
        self.write("lived", 0, 0)
        trigger: dict[str, Any] = {"realTime": "5 seconds"}  # not in pyspark's types
        query = (
            self.stream("live")
            .select("key", "value")
            .writeStream.format("kafka")
            .outputMode("update")
            .option("kafka.bootstrap.servers", self.bootstrap)
            .option("topic", "lived")
            .option("checkpointLocation", str(self.directory / "live"))
            .trigger(**trigger)
            .start()
        )
        try:
            end = time.monotonic() + REAL_TIME_SECONDS_MAX
            while time.monotonic() < end and query.isActive:
                time.sleep(2)
                if len(self.read("lived")) >= 100:
                    break
            assert query.isActive, query.exception()
        finally:
            query.stop()
        assert set(self.read("lived")) == set(range(100))

    def by_name(self) -> dict[str, Callable[[], None]]:
        return {
            "sink, then batch": self.sink_and_batch,
            "batch, read_committed": self.transactional_isolation,
            "batch by time": self.by_time,
            "stream to a topic, twice": self.stream_to_topic,
            "Real-Time Mode": self.real_time,
        }


def main(bootstrap: str, directory: Path, jars: str) -> dict[str, str]:
    """Return the verdicts."""
    spark = (
        SparkSession.builder.appName("connector")
        .master("local[2]")
        .config("spark.jars", jars)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    verdicts = {}
    for name, case in Cases(spark, bootstrap, directory).by_name().items():
        try:
            case()
        except Exception as error:  # noqa: BLE001 - the verdict is the report
            verdicts[name] = f"{type(error).__name__}: {error}"[:1000]
        else:
            verdicts[name] = "ok"
    spark.stop()
    return verdicts


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])))
