"""The driver's requests to the brokers: partitions, first and end offsets, sizes, commits.

Blocking, one thread. Passing failures are retried for as long as the options allow; the rest is
raised as SourceError, in one line.
"""

from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from headrace.client.admin import groups
from headrace.client.admin.groups import Committed
from headrace.client.calls.fetch import Fetched
from headrace.client.calls.metadata import Metadata, TopicMetadata
from headrace.client.calls.offsets import EARLIEST, LATEST, OffsetAt, list_offsets
from headrace.client.client import Client
from headrace.client.sync import Wanted, run
from headrace.client.transport.port import Address, ClientError
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.record.batch import iterate, next_offset, size_of
from headrace.spark.broker_errors import source_error
from headrace.spark.errors import SourceError, UnknownTopicError
from headrace.spark.source.connections import kept_connections
from headrace.spark.source.offsets import Ends, text_of_id
from headrace.spark.source.options import Bound, Fetching, Partitions, Strategy, Subscription
from headrace.wire.kafka.primitives import NO_UUID

T = TypeVar("T")

_SAMPLE_BYTES = 256 * 1024
_TOPIC_SECONDS = 3.0


class View(NamedTuple):
    """The metadata of the subscribed topics, from one response."""

    metadata: Metadata
    topics: Mapping[str, TopicMetadata]
    """The subscribed topics by name, with only the assigned partitions."""

    @property
    def cluster_id(self) -> str:
        """The cluster's id; empty if the brokers do not report one."""
        return self.metadata.cluster_id or ""

    def partitions(self) -> list[TopicPartition]:
        """Return all partitions of the topics, sorted."""
        return sorted(
            TopicPartition(name, partition.partition)
            for name, topic in self.topics.items()
            for partition in topic.partitions
        )

    def ids(self) -> dict[str, str]:
        """Return topic ids by name, for the checkpoint; empty from brokers that have no topic
        ids."""
        return {
            name: text_of_id(topic.topic_id)
            for name, topic in self.topics.items()
            if topic.topic_id != NO_UUID
        }

    def leaders(self) -> dict[TopicPartition, Address]:
        """Return the leader's address of each partition that has a leader."""
        brokers = self.metadata.brokers
        return {
            TopicPartition(name, partition.partition): brokers[partition.leader]
            for name, topic in self.topics.items()
            for partition in topic.partitions
            if partition.leader in brokers
        }


class Cluster:
    """Connections to the cluster for one reader. Close it."""

    def __init__(self, bootstrap: str, fetching: Fetching) -> None:
        self._fetching = fetching
        retry_seconds = max(1.0, fetching.retries * fetching.retry_interval_ms / 1000)
        self._client = fetching.security.client(
            bootstrap,
            client_id=fetching.client_id,
            request_timeout_seconds=fetching.request_timeout_ms / 1000,
            retry_seconds=retry_seconds,
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

    @property
    def client(self) -> Client:
        """The client; `ask` runs its coroutines."""
        return self._client

    def ask(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the client and return its result; its errors become SourceError."""
        try:
            return run(work)
        except (ClientError, ApiError) as error:
            raise source_error(error) from error

    def look(self, subscription: Subscription) -> View:
        """Fetch the metadata of the subscribed topics.

        SourceError if a named topic does not exist; a pattern may match none.
        """
        if subscription.strategy is Strategy.PATTERN:
            every = self.ask(self._client.metadata(None))
            return View(
                every,
                {
                    name: topic
                    for name, topic in every.topics.items()
                    if subscription.matches(name) and not topic.internal and not topic.error_code
                },
            )
        assigned = dict(subscription.assigned)
        names = list(subscription.topics or assigned)
        try:
            known = run(self._client.leaders(names, retry_seconds=_TOPIC_SECONDS))
        except (ClientError, ApiError) as error:
            if isinstance(error, ApiError) and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                what = (error.message or "").removeprefix("topic ")
                raise UnknownTopicError(
                    f"there is no such topic: {what}; create it, or correct the option naming it"
                ) from error
            raise source_error(error) from error
        return View(known, {name: _assigned(known, name, assigned.get(name)) for name in names})

    def ends(
        self,
        partitions: Iterable[TopicPartition],
        which: int,
        view: View | None = None,
        *,
        read_committed: bool | None = None,
    ) -> Ends:
        """Return the EARLIEST or LATEST offsets of partitions.

        LATEST is the end that the isolation level can read: the query's own level unless given.
        `view`: metadata for the first attempt; later attempts request it again.
        """
        offsets = self._list(dict.fromkeys(partitions, which), view, read_committed)
        return {partition: at.offset for partition, at in offsets.items()}

    def not_before(self, bound: Bound, partitions: Iterable[TopicPartition]) -> Ends:
        """Return the first offsets not older than the bound's timestamp; the end if all are
        older."""
        return self.resolve(replace(bound, latest_without_match=True), partitions)

    def resolve(self, bound: Bound, partitions: Iterable[TopicPartition]) -> Ends:
        """Resolve a `starting…` or `ending…` option to an offset for each partition."""
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

    def _list(
        self,
        wanted: Mapping[TopicPartition, int],
        view: View | None = None,
        read_committed: bool | None = None,
    ) -> dict[TopicPartition, OffsetAt]:
        committed = self._fetching.read_committed if read_committed is None else read_committed
        metadata = view and view.metadata
        return self.ask(
            list_offsets(self._client, wanted, read_committed=committed, metadata=metadata)
        )

    def record_bytes(self, begin: Ends, view: View) -> dict[TopicPartition, float]:
        """Return the approximate stored size in bytes of one offset, sampled from `begin` on.

        1.0 for a partition without a sample.
        """
        weights = dict.fromkeys(begin, 1.0)
        leaders = view.leaders()
        by_address: dict[Address, list[Wanted]] = {}
        for partition, offset in begin.items():
            if (leader := leaders.get(partition)) is not None:
                topic_id = view.topics[partition.topic].topic_id
                wanted = Wanted(
                    partition.topic, topic_id, partition.partition, offset, _SAMPLE_BYTES
                )
                by_address.setdefault(leader, []).append(wanted)
        for address, wanted_here in by_address.items():
            try:
                weights |= self._sampled(address, wanted_here)
            except (ClientError, ApiError) as error:
                raise source_error(error) from error
        return weights

    def _sampled(self, address: Address, wanted: Sequence[Wanted]) -> dict[TopicPartition, float]:
        fetching = self._fetching
        connection = kept_connections.take(
            address, fetching.client_id, fetching.request_timeout_ms / 1000, fetching.security
        )
        try:
            fetched = connection.fetch(wanted, max_wait_ms=0)
            weights = {TopicPartition(got.topic, got.partition): _weight(got) for got in fetched}
        except BaseException:
            connection.close()
            raise
        kept_connections.give_back(connection, fetching.security)
        return {partition: weight for partition, weight in weights.items() if weight}

    def commit(self, group: str, ends: Ends) -> None:
        """Commit offsets for a consumer group without members, so that tools show its lag."""
        offsets = {partition: Committed(offset) for partition, offset in ends.items()}
        self.ask(groups.commit(self._client, group, offsets))


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
    """Return the given number of each wanted partition; SourceError if they do not match
    exactly."""
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


def _weight(fetched: Fetched) -> float:
    total = offsets = 0
    for _, header in iterate(fetched.records):
        total += size_of(header)
        offsets += max(1, next_offset(header) - header.base_offset)
    return total / offsets if offsets else 0.0
