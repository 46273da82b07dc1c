"""What the driver asks of the brokers: which partitions there are, where they begin and end.

Blocking, one thread. Failures that may pass are tried again for as long as the options say; what
remains is raised as SourceError, in one line.
"""

import re
from base64 import urlsafe_b64encode
from collections.abc import Coroutine, Iterable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from headrace.client import groups
from headrace.client.groups import Committed
from headrace.client.metadata import Metadata, TopicMetadata
from headrace.client.offsets import EARLIEST, LATEST, OffsetAt, list_offsets
from headrace.client.sync import FetchConnection, Wanted, connect, run
from headrace.client.transport import ClientError
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.record.batch import iterate, next_offset, size_of
from headrace.spark.errors import DataLossError, SourceError
from headrace.spark.offsets import Ends, topics_of
from headrace.spark.options import Bound, Fetching, Partitions, Strategy, Subscription
from headrace.wire.kafka.primitives import NO_UUID

T = TypeVar("T")

_SAMPLE_BYTES = 256 * 1024
_TOPIC_SECONDS = 3.0


class Cluster:
    """A connection to the cluster for one reader. Close it."""

    def __init__(self, bootstrap: str, fetching: Fetching) -> None:
        self._fetching = fetching
        retry_seconds = max(1.0, fetching.retries * fetching.retry_interval_ms / 1000)
        self._client = connect(
            bootstrap,
            client_id=fetching.client_id,
            request_timeout_seconds=fetching.request_timeout_ms / 1000,
            retry_seconds=retry_seconds,
            patient=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def ask(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result; SourceError for what the client could not do."""
        try:
            return run(work)
        except (ClientError, ApiError) as error:
            raise SourceError(str(error)) from error

    def topics(self, subscription: Subscription) -> dict[str, TopicMetadata]:
        """Return the topics subscribed to, their partitions cut down to those assigned.

        SourceError where a topic named does not exist; a pattern may match none.
        """
        if subscription.strategy is Strategy.PATTERN:
            pattern = re.compile(subscription.pattern)
            every = self.ask(self._client.metadata(None))
            return {
                name: topic
                for name, topic in every.topics.items()
                if pattern.fullmatch(name) and not topic.internal and not topic.error_code
            }
        assigned = dict(subscription.assigned)
        names = list(subscription.topics or assigned)
        try:
            known = run(self._client.leaders(names, retry_seconds=_TOPIC_SECONDS))
        except (ClientError, ApiError) as error:
            if isinstance(error, ApiError) and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise SourceError(f"there is no such topic: {error}") from error
            raise SourceError(str(error)) from error
        return {name: _assigned(known, name, assigned.get(name)) for name in names}

    def ends(self, partitions: Iterable[TopicPartition], which: int) -> Ends:
        """Return EARLIEST or LATEST offsets.

        LATEST is what readers of the isolation level may see.
        """
        offsets = self._list(dict.fromkeys(partitions, which))
        return {partition: at.offset for partition, at in offsets.items()}

    def resolve(self, bound: Bound, partitions: Iterable[TopicPartition]) -> Ends:
        """Return the offsets a `starting…` or `ending…` option means for these partitions."""
        wanted = list(partitions)
        if bound.timestamp is not None:
            return self._by_time(dict.fromkeys(wanted, bound.timestamp), bound)
        if bound.timestamps is not None:
            times = _for_each(bound.timestamps, wanted, "a timestamp")
            return self._by_time(times, bound)
        if isinstance(bound.offsets, int):
            return self.ends(wanted, bound.offsets)
        given = _for_each(bound.offsets, wanted, "an offset (-2 earliest, -1 latest)")
        ends = {partition: offset for partition, offset in given.items() if offset >= 0}
        for which in (EARLIEST, LATEST):
            ends |= self.ends(
                [partition for partition, offset in given.items() if offset == which], which
            )
        return ends

    def _by_time(self, times: Mapping[TopicPartition, int], bound: Bound) -> Ends:
        offsets = self._list(dict(times))
        missing = [partition for partition, at in offsets.items() if at.offset < 0]
        if missing and not bound.latest_without_match:
            partition = missing[0]
            raise SourceError(
                f"no record of {partition} is as late as {times[partition]}; "
                "startingOffsetsByTimestampStrategy=latest starts such partitions at their end"
            )
        ends = {partition: at.offset for partition, at in offsets.items()}
        return ends | self.ends(missing, LATEST)

    def _list(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAt]:
        committed = self._fetching.read_committed
        return self.ask(list_offsets(self._client, wanted, read_committed=committed))

    def record_bytes(self, begin: Ends) -> dict[TopicPartition, float]:
        """Return what one offset weighs about, as stored, by a look at the records from `begin` on.

        For an estimate only: 1.0 where nothing could be seen.
        """
        weights = dict.fromkeys(begin, 1.0)
        known = self.ask(self._client.leaders(topics_of(begin)))
        by_leader: dict[int, list[Wanted]] = {}
        for partition, offset in begin.items():
            topic_id = known.topics[partition.topic].topic_id
            wanted = Wanted(*_named(partition, topic_id), offset, _SAMPLE_BYTES)
            by_leader.setdefault(known.leader(*partition), []).append(wanted)
        for leader, wanted_here in by_leader.items():
            try:
                with FetchConnection(
                    known.brokers[leader], client_id=self._fetching.client_id
                ) as connection:
                    for got in connection.fetch(wanted_here, max_wait_ms=0):
                        weight = _weight(got.records)
                        if weight:
                            weights[TopicPartition(got.topic, got.partition)] = weight
            except (ClientError, ApiError) as error:
                raise SourceError(str(error)) from error
        return weights

    def commit(self, group: str, ends: Ends) -> None:
        """Commit as a consumer group without members, so that tools show the lag."""
        offsets = {partition: Committed(offset) for partition, offset in ends.items()}
        self.ask(groups.commit(self._client, group, offsets))


def partitions_of(topics: Mapping[str, TopicMetadata]) -> list[TopicPartition]:
    """List all partitions of the topics, sorted."""
    return sorted(
        TopicPartition(name, partition.partition)
        for name, topic in topics.items()
        for partition in topic.partitions
    )


def ids_of(topics: Mapping[str, TopicMetadata]) -> dict[str, str]:
    """Return topic ids by name, for the checkpoint; brokers too old to have ids give none."""
    return {
        name: urlsafe_b64encode(topic.topic_id).decode().rstrip("=")
        for name, topic in topics.items()
        if topic.topic_id != NO_UUID
    }


def _named(partition: TopicPartition, topic_id: bytes) -> tuple[str, bytes, int]:
    return partition.topic, topic_id, partition.partition


def _assigned(known: Metadata, name: str, numbers: tuple[int, ...] | None) -> TopicMetadata:
    topic = known.topics[name]
    if numbers is None:
        return topic
    chosen = [partition for partition in topic.partitions if partition.partition in numbers]
    missing = sorted(set(numbers) - {partition.partition for partition in chosen})
    if missing:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name
        raise SourceError(f"{code}: assign: there is no partition {name}-{missing[0]}")
    return topic._replace(partitions=chosen)


def _for_each(given: Partitions, wanted: list[TopicPartition], option: str) -> Ends:
    """Return the numbers given, one for each partition wanted and no other; else SourceError."""
    numbers = {
        TopicPartition(topic, partition): number
        for topic, partitions in given.items()
        for partition, number in partitions.items()
    }
    missing, unknown = sorted(set(wanted) - set(numbers)), sorted(set(numbers) - set(wanted))
    if missing:
        raise SourceError(f"{option} must be given for every partition: {missing[0]} has none")
    if unknown:
        raise SourceError(f"{option} is given for {unknown[0]}, which is not subscribed to")
    return numbers


def _weight(records: memoryview) -> float:
    total = offsets = 0
    for _, header in iterate(records):
        total += size_of(header)
        offsets += max(1, next_offset(header) - header.base_offset)
    return total / offsets if offsets else 0.0


def lost(loss: str, *, fail: bool) -> str:
    """Raise DataLossError where data loss is to fail the query, else return it as a warning."""
    if fail:
        raise DataLossError(loss)
    return loss
