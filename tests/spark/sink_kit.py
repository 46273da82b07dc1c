"""What tests of the sink have in common: what readers of committed data see, and queries."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headrace.arrow.read.decode import PartitionDecoder
from headrace.client.calls.offsets import EARLIEST, LATEST, list_offsets
from headrace.client.sync import FetchConnection, Wanted, connect, run
from headrace.model.nouns import TopicPartition

COLUMNS = ("key", "value", "headers", "offset", "timestamp")


def committed_rows(bootstrap: str, topic: str, *, committed: bool = True) -> list[dict[str, Any]]:
    """All rows of a topic that a reader of committed data sees, with their partition."""
    rows: list[dict[str, Any]] = []
    with connect(bootstrap) as client:
        known = run(client.leaders([topic]))
        for partition in range(len(known.topics[topic].partitions)):
            place = TopicPartition(topic, partition)
            ends = run(list_offsets(client, {place: LATEST}, read_committed=committed))
            starts = run(list_offsets(client, {place: EARLIEST}))
            begin, end = starts[place].offset, ends[place].offset
            decoder = PartitionDecoder(
                topic, partition, offset_from=begin, offset_until=end, columns=COLUMNS
            )
            leader = known.brokers[known.leader(topic, partition)]
            with FetchConnection(leader) as connection:
                while not decoder.done:
                    wanted = Wanted(
                        topic, known.topics[topic].topic_id, partition, decoder.position
                    )
                    (fetched,) = connection.fetch([wanted], read_committed=committed)
                    batches = [*decoder.feed(fetched.records, fetched.aborted), *decoder.flush()]
                    for batch in batches:
                        rows += [{**row, "partition": partition} for row in batch.to_pylist()]
    return rows


def numbers_of(bootstrap: str, *topics: str) -> list[int]:
    """The values of all topics' committed rows as numbers, sorted."""
    return sorted(int(row["value"]) for topic in topics for row in committed_rows(bootstrap, topic))


def sink_of(writer: Any, bootstrap: str, pipeline: str, **options: str) -> Any:
    """A DataFrameWriter or DataStreamWriter that writes to the broker."""
    given = {"kafka.bootstrap.servers": bootstrap, "pipeline": pipeline, **options}
    return writer.format("headrace").options(**given)


@contextmanager
def started(writer: Any, checkpoint: Path) -> Iterator[Any]:
    """A query, stopped at the end."""
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    try:
        yield query
    finally:
        query.stop()
