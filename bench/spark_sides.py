"""Both sides of a row of Spark: a broker and a session for each column of the table."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from bench import spark_peer, spark_scan
from bench.checkouts import HERE, Checkout
from bench.spark_process import SparkProcess
from bench.subjects import Broker, Kafka, Subject
from headrace.client.admin.topics import create_topic
from headrace.client.calls.offsets import LATEST, list_offsets
from headrace.client.sync import connect, run
from headrace.model.nouns import TopicPartition

CONNECTOR = Subject("connector", Kafka, None)
HEADRACE = "headrace"


@dataclass(frozen=True)
class Side:
    """Spark and a broker; what a row is about goes through both."""

    name: str
    format: str
    broker: Broker
    spark: SparkProcess

    @property
    def headrace(self) -> bool:
        """Whether it is a checkout of ours, not Spark's connector."""
        return self.format == HEADRACE

    def topic(self, name: str) -> str:
        """Make a topic."""
        with connect(self.broker.bootstrap, client_id="bench") as client:
            run(create_topic(client, name, partitions=spark_scan.CORES))
            # Kafka names leaders that do not lead yet: asked for offsets until they answer.
            places = [TopicPartition(name, place) for place in range(spark_scan.CORES)]
            run(list_offsets(client, dict.fromkeys(places, LATEST)))
        return name


def checkout_of(subject: Subject, subjects: Sequence[Subject]) -> Checkout:
    """Return the checkout that a side's session runs; beside the connector with one pyspark."""
    if CONNECTOR in subjects:
        return replace(HERE, python=spark_peer.CONNECTOR.python())
    return subject.checkout or HERE


@contextmanager
def sides_of(subjects: Sequence[Subject]) -> Iterator[list[Side]]:
    """Start the broker and the session of each side; they run until the row ends."""
    with ExitStack() as stack:
        sides = []
        for subject in subjects:
            connector = subject is CONNECTOR
            broker = stack.enter_context(subject.broker(False))
            run_by = checkout_of(subject, subjects)
            spark = stack.enter_context(
                SparkProcess(run_by.python, run_by.root, connector=connector)
            )
            sides.append(Side(subject.name, "kafka" if connector else HEADRACE, broker, spark))
        yield sides


def having(
    subjects: Sequence[Subject], module: str, function: str
) -> tuple[list[Subject], list[Subject]]:
    """Return the subjects whose sessions can call `bench.<module>.<function>`, and the others.

    The connector's session runs this checkout's.
    """
    able = [
        subject for subject in subjects
        if subject.checkout is None or subject.checkout.has(module, function)
    ]  # fmt: skip
    return able, [subject for subject in subjects if subject not in able]
