"""A follower's fetch: whole batches up to the log end, and the high watermark.

- Its fetch offset is the end of its log on disk: it is noted before reading, and may advance the
  high watermark or have the follower join the ISR.
- If its log diverges from the leader's, it gets the end of the common part and no records
  (KIP-595).
- It waits for the log to grow. A change of the high watermark or the log start offset is answered
  at once: the follower's consumers would wait otherwise.
- A throttled replica (KIP-73) that is out of sync gets records only within the rate; high
  watermarks are always returned.
- A partition whose follower may join the ISR is looked at by every request, as each may be the one
  that completes the condition.
"""

from typing import TYPE_CHECKING

from headrace.broker.replica import replica_reads
from headrace.broker.replica.in_sync_replicas import ReplicaFetch
from headrace.frontends.kafka.fetch.fetch_in_hand import LOOK_AGAIN, FetchInHand
from headrace.frontends.kafka.fetch.fetch_sessions import TOPIC_IDS_FROM
from headrace.frontends.kafka.fetch.wanted_by_follower import WantedByFollower
from headrace.log.log import NeedsDisk
from headrace.model.errors import ErrorCode
from headrace.model.nouns import BrokerId, LeaderEpoch, Offset
from headrace.wire.kafka.hot.fetch_response import (
    EpochEndOffset,
    FetchedPartition,
    FetchedTopic,
    FetchResponse,
    encode_response,
)

if TYPE_CHECKING:
    from headrace.broker.partition import Partition
    from headrace.broker.replica.leader_term import LeaderTerm
    from headrace.frontends.kafka.connection.handler import Answer
    from headrace.frontends.kafka.fetch.wanted_partitions import Key, WantedPartition
    from headrace.observe.metrics import TopicTraffic
    from headrace.ports.file_ranges import Part
    from headrace.wire.kafka.hot.fetch import FetchRequest


def refused(version: int, request: "FetchRequest") -> "list[Part]":
    """Answer a client that is no broker of the cluster: an error for each partition."""
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    by_id = version >= TOPIC_IDS_FROM
    topics = [
        FetchedTopic(
            "" if by_id else topic.name,
            topic.topic_id,
            [FetchedPartition(asked.partition, code) for asked in topic.partitions],
        )
        for topic in request.topics
    ]
    return encode_response(version, FetchResponse(topics=topics))


class FollowersFetch(FetchInHand):
    """A follower's Fetch request in progress."""

    __slots__ = ("_follower", "_news", "_registered", "_throttled")

    def begin(self) -> "Answer":
        """Answer at once if possible; else return a pending answer."""
        self.read_committed = False
        self._follower = BrokerId(self.request.replica_id)
        self._news = False
        known = self.broker.image.brokers.get(self._follower)
        self._registered = -1 if known is None else known.epoch
        self._throttled: dict[WantedPartition, None] = {}
        """Partitions whose bytes count for the leader's replication throttle."""
        if isinstance(self.wanted, WantedByFollower):
            self.wanted.asked_at = self.broker.clock.monotonic()
        new, asked_ms = self.broker.new_followers, self.request.max_wait_ms
        wait_ms = new.wait_ms(self._follower, self.wanted.by_key, asked_ms)
        if wait_ms != asked_ms:
            self.request = self.request._replace(max_wait_ms=wait_ms)
        answer = super().begin()
        new.waits(self._follower, self.poll)
        if self._throttled and self.poll is not None:
            self.poll.watch((self.broker.throttles.leader,))
        return answer

    def _satisfied(self) -> bool:
        return self._news or super()._satisfied()

    def _partition(self, key: "Key") -> "Partition":
        topic, index = key
        if (new := self.broker.new_followers.partition(self._follower, key)) is not None:
            return new
        if isinstance(topic, bytes):
            return self.broker.partition_by_id(topic, index)
        return self.broker.partition(topic, index)

    def _end_for(self, partition: "Partition") -> Offset:
        return partition.log.end_offset

    def _read(self, entry: "WantedPartition", partition: "Partition") -> FetchedPartition:
        asked, log = entry.asked, partition.log
        offset = Offset(asked.fetch_offset)
        said = asked.current_leader_epoch >= 0
        term = replica_reads.term_for(partition, self._follower, epoch_said=said)
        last_epoch = LeaderEpoch(asked.last_fetched_epoch)
        diverging = replica_reads.diverging(partition, offset, last_epoch)
        if diverging is not None:
            self.failed = True
            result = self._result(partition, asked, b"", None)
            self.readable_end = LOOK_AGAIN
            return result._replace(diverging_epoch=EpochEndOffset(*diverging))
        self._note(entry, partition, term)
        in_sync = self._follower in term.in_sync
        if self._held_back(entry, partition, in_sync=in_sync):
            result = self._result(partition, asked, b"", None)
            self._look_for_news(entry, result)
            self.readable_end = LOOK_AGAIN
            return result
        limit = min(asked.max_bytes, self.bytes_max - self.size)
        found = log.serve(offset, max(limit, 0), below=log.end_offset, at_least_one=self.size == 0)
        if isinstance(found, NeedsDisk):
            self.cold.append((entry, partition))
            result = self._result(partition, asked, b"", None)
        else:
            self.size += len(found.data)
            result = self._result(partition, asked, found.data, found)
        self._look_for_news(entry, result)
        self.readable_end = log.end_offset if in_sync else LOOK_AGAIN
        return result

    def _held_back(
        self, entry: "WantedPartition", partition: "Partition", *, in_sync: bool
    ) -> bool:
        """Tell whether the throttle holds a partition's records back; note it for counting."""
        throttle = self.broker.throttles.leader
        if not throttle.names_any or not throttle.throttles(*partition.topic_partition):
            return False
        self._throttled[entry] = None
        return not in_sync and throttle.exceeded

    def _encode(self) -> "list[Part]":
        if self._throttled:
            given = (self.results[entry] for entry in self._throttled if entry in self.results)
            self.broker.throttles.leader.count(sum(len(result.records or b"") for result in given))
        return super()._encode()

    def _count(self, traffic: "TopicTraffic", size: int) -> None:
        traffic.replica_bytes_out += size

    def _note(self, entry: "WantedPartition", partition: "Partition", term: "LeaderTerm") -> None:
        """Note the follower's fetch offset and log start for the ISR and the high watermark."""
        asked = entry.asked
        offset = Offset(asked.fetch_offset)
        fetch = ReplicaFetch(
            self._follower, offset, offset, self.request.replica_epoch,
            Offset(asked.log_start_offset),
        )  # fmt: skip
        replica_reads.note_fetch(
            partition,
            term,
            fetch,
            at=self.wanted.asked_at if isinstance(self.wanted, WantedByFollower) else 0.0,
            registered=self._registered,
            isr_wanted=self.broker.isr_wanted,
        )

    def _look_for_news(self, entry: "WantedPartition", result: FetchedPartition) -> None:
        told = entry.high_watermark, entry.log_start_offset
        now = result.high_watermark, result.log_start_offset
        if told == now:
            return
        if self.wanted.kept or told[0] >= 0:
            self._news = True
        else:  # without a session only changes during the wait are known
            entry.high_watermark, entry.log_start_offset = now
