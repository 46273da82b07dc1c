"""Publish a batch's manifest: its records and a decision, in one transaction, once.

The transactional id is the flow's. Taking it fences an older run and ends its transaction, so what
the decision topic then says of a batch is final. A fenced publication is tried again: if the batch
is published by then, nothing is written.
"""

import random
import time
from collections.abc import Iterator

import pyarrow as pa

from headrace.client.client import Client
from headrace.client.producer import transactions
from headrace.client.producer.producer import Producer
from headrace.client.sync import run
from headrace.client.transport.port import ClientError
from headrace.model.errors import ApiError
from headrace.model.nouns import TopicPartition
from headrace.record.compression import Codec
from headrace.record.record import Header
from headrace.spark.errors import SinkError
from headrace.spark.quarantine.manifest import manifest_path, read_manifest, run_of_manifest
from headrace.spark.quarantine.names import (
    HEADER,
    decisions_topic,
    quarantine_topic,
    transactional_id,
)
from headrace.spark.quarantine.options import SinkQuarantine
from headrace.spark.quarantine.refused import RefusedRecord
from headrace.spark.sink.decisions import Decision, DecisionLog

_TIMEOUT_MS = 300_000
"""Timeout of the transaction of a driver that does not return: a restarted one ends it at once."""
_TOPIC_SECONDS = 3.0
_TAKEN_OVER_MAX = 8
"""Attempts at a transaction whose id another query takes over midway."""
_PAUSE_SECONDS_MAX = 0.5


def publish(options: SinkQuarantine, query: str, batch: int, digest: int) -> bool:
    """Publish a batch's manifest; return False if that was done before.

    SinkError if the brokers refuse it or the manifest is missing; the batch can be repeated.
    """
    with options.client() as client:
        try:
            return _published(options, client, query, batch, digest)
        except (ClientError, ApiError) as error:
            raise SinkError(
                f"quarantine of flow {options.spool.flow}: batch {batch}: {error}; the batch is"
                " written, and its refused records are published when the query starts again"
            ) from error


def _published(
    options: SinkQuarantine, client: Client, query: str, batch: int, digest: int
) -> bool:
    """Publish; again if another query with this pipeline and flow takes over the id midway.

    Two storages whose pipelines have one name share the id, and each has its own decisions.
    """
    left = _TAKEN_OVER_MAX
    while True:
        try:
            return _Publication(options, client, query, batch, digest).publish()
        except ApiError as error:
            left -= 1
            if error.code not in transactions.GONE or not left:
                raise
        time.sleep(random.uniform(0, _PAUSE_SECONDS_MAX))  # noqa: S311 - parts two queries


class _Publication:
    def __init__(
        self, options: SinkQuarantine, client: Client, query: str, batch: int, digest: int
    ) -> None:
        self._options = options
        self._client = client
        self._query, self._batch, self._digest = query, batch, digest
        topic = decisions_topic(options.pipeline, options.spool.flow)
        self._decisions = DecisionLog(client, topic, query.encode())
        self._counts: dict[str, int] = {}

    def publish(self) -> bool:
        options = self._options
        run(self._decisions.create())
        name = transactional_id(options.pipeline, options.spool.flow)
        writer = run(transactions.take_id(self._client, name, _TIMEOUT_MS))
        last = run(self._decisions.last())
        if last is not None and last.decision.batch >= self._batch:
            return False
        producer = Producer(self._client, compression=Codec.LZ4, create_topics=False)
        producer.write_as(*writer)
        added = {self._decisions.partition}
        run(transactions.add_partitions(self._client, writer, added))
        for record, headers in self._records():
            self._send(producer, writer, record, headers, added)
        decision = Decision(self._query, self._batch, f"{self._digest:016x}", "", [])
        run(self._decisions.write(producer, decision, int(time.time() * 1000)))
        run(producer.flush())
        run(transactions.end(self._client, writer, commit=True))
        return True

    def _send(
        self,
        producer: Producer,
        writer: transactions.Writer,
        record: RefusedRecord,
        headers: list[Header],
        added: set[TopicPartition],
    ) -> None:
        topic = quarantine_topic(record.topic)
        if topic not in self._counts:
            known = run(self._client.leaders([topic], retry_seconds=_TOPIC_SECONDS))
            self._counts[topic] = len(known.topics[topic].partitions)
        place = TopicPartition(topic, record.partition % self._counts[topic])
        if place not in added:
            run(transactions.add_partitions(self._client, writer, {place}))
            added.add(place)
        sending = producer.send(
            topic,
            record.value,
            record.key,
            timestamp=record.timestamp,
            headers=headers,
            partition=place.partition,
        )
        run(sending)

    def _records(self) -> Iterator[tuple[RefusedRecord, list[Header]]]:
        """Yield the manifest's records with all their headers. Raises SinkError."""
        options = self._options
        path = manifest_path(options.spool, self._query, self._batch, self._digest)
        try:
            run_id = run_of_manifest(path)
            for record in read_manifest(path):
                yield record, self._headers(record, run_id)
        except (OSError, pa.ArrowInvalid) as error:
            raise SinkError(
                f"quarantine of flow {options.spool.flow}: batch {self._batch} is written, and its"
                f" refused records cannot be read from {path}: {error}; restore the file and start"
                " the query again"
            ) from error

    def _headers(self, record: RefusedRecord, run_id: str) -> list[Header]:
        added = {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "pipeline": self._options.pipeline,
            "flow": self._options.spool.flow,
            "query": self._query,
            "run": run_id,
            "batch": self._batch,
            "stage": record.stage,
            "reason": record.reason,
            "field": record.field,
            "schema": record.schema,
            "attempt": record.attempt,
        }
        return [
            *record.headers,
            *((HEADER + name, str(value).encode()) for name, value in added.items()),
        ]
