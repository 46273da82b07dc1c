"""`Partition`: a replica's log and role; append, commit and read.

* A partition leads, follows, or does neither; its log is not changed by a change of role.
* The high watermark is the offset below which every in-sync replica has the log on disk. With
  `flush_on_ack` (the default) it never exceeds `log.flushed_offset`; without, it is the log's end.
  The log stores it; the role limits it if there are other replicas.
* `append` returns the offset that the high watermark must reach before acks=all is answered
  (`Appended.commit_offset`); `when_committed` calls back then, in the order of calls.
* Consumers read whole batches below the high watermark, or below the last stable offset.

All calls come from the one deciding thread and never block.
"""

from headrace.broker.appended import Appended
from headrace.broker.replica.joining import joins
from headrace.broker.replica.partition_role import PartitionRole
from headrace.broker.watchable import Watched
from headrace.config.log_config import LogConfig
from headrace.log.append_run import append_run
from headrace.log.flusher import Flusher
from headrace.log.log import Log, NeedsDisk, Origin, ReadResult, Served
from headrace.log.producers.producer_states import Begins, Duplicate
from headrace.model.errors import ApiError, ErrorCode, StorageError
from headrace.model.nouns import INTERNAL_TOPICS, LeaderEpoch, Offset, TopicPartition
from headrace.model.protocols import is_closed
from headrace.observe.metrics import TopicTraffic
from headrace.ports.disk import Buffer
from headrace.record.batch import (
    TRANSACTIONAL,
    BatchHeader,
    ControlType,
    build_marker,
    parse_header,
)
from headrace.record.batch_layout import ATTRIBUTES, PRODUCER_ID

ACKS_ALL = -1
TO_HIGH_WATERMARK = -1


_new = tuple.__new__  # makes a named tuple in two fifths of its constructor's time


class Partition(Watched):
    """A replica of a partition on this broker: its log and its role."""

    __slots__ = (
        "_closed", "_flush_later", "_flush_soon", "_internal", "_waiters", "inspected",
        "keys_needed", "log", "may_join", "role", "topic_partition", "traffic", "when_committed",
    )  # fmt: skip

    def __init__(self, log: Log, *, flusher: Flusher, flush_on_ack: bool = True) -> None:
        """Make a partition on `log` without a role; it answers NOT_LEADER_OR_FOLLOWER."""
        super().__init__()
        self.log = log
        self.traffic = TopicTraffic()
        self.topic_partition: TopicPartition = log.topic_partition
        self.role = PartitionRole(log, flusher, self._watchers, flush_on_ack=flush_on_ack)
        self._waiters = self.role.waiters
        self.when_committed = self._waiters.when_committed
        self._flush_soon = flusher.flush_soon
        self._flush_later = flusher.flush_later
        self._closed = is_closed(self.topic_partition.topic)
        self._internal = self._closed or self.topic_partition.topic in INTERNAL_TOPICS
        self.keys_needed = False
        """Whether records without a key must be refused (compacted topics).

        The code that decodes a Produce request does it, as records are not decoded here. Internal
        topics accept no client records.
        """
        self.may_join = joins(self.topic_partition.topic)
        """Whether a follower that has the log has all else that a member of the ISR needs."""
        self.inspected = False
        """Whether clients' records must be decoded: for `keys_needed`, or for the topic's own
        codec."""
        self._look_into(log.config)

    def close(self, because: ErrorCode) -> None:
        """Stop serving for good; waiting requests get `because`. The log is unchanged."""
        self.role.close(because)

    @property
    def refusal(self) -> ErrorCode | None:
        """Why nothing is served; None while the partition leads."""
        return self._waiters.refusal

    @property
    def leader_epoch(self) -> LeaderEpoch:
        """The leader epoch of the role; -1 before the first one."""
        return self.role.leader_epoch

    @property
    def high_watermark(self) -> Offset:
        """The offset below which all in-sync replicas have every record."""
        return self.log.high_watermark

    @property
    def topic_id(self) -> bytes:
        """The topic's 16-byte id."""
        return self.log.topic_id

    @property
    def log_start_offset(self) -> Offset:
        """The first offset of the log."""
        return self.log.start_offset

    @property
    def last_stable_offset(self) -> Offset:
        """The offset below which no transaction is undecided, between log start and high
        watermark."""
        return self.log.last_stable_offset(self.log.high_watermark)

    def readable_end(self, read_committed: bool) -> Offset:
        """Return the end offset for a consumer with this isolation level."""
        return self.last_stable_offset if read_committed else self.high_watermark

    def check_end_known(self) -> None:
        """Refuse to report the end offset until earlier leaders' commits are known (KIP-207).

        ApiError: OFFSET_NOT_AVAILABLE until the high watermark has reached the term's start.
        """
        if not self.role.knows_end:
            raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE)

    def append(
        self,
        batch: memoryview,
        header: BatchHeader,
        *,
        now_ms: int,
        required_acks: int = ACKS_ALL,
        begins: Begins = Begins.NO,
    ) -> Appended:
        """Append a client's checked batch (`record.batch.check_produced`), stamped in place.

        `batch` is written before this returns and not retained. A batch equal to one of its
        producer's last five is not written; the result has the first append's offsets. `begins`:
        whether the transaction coordinator knows this partition; it need not be asked if the
        transaction is open here (`log.producers.is_open`).

        ApiError: KAFKA_STORAGE_ERROR, NOT_LEADER_OR_FOLLOWER, INVALID_TOPIC_EXCEPTION (internal
        topics), NOT_ENOUGH_REPLICAS (acks=all only), INVALID_TXN_STATE (transactional without a
        transaction, or the reverse), OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH,
        and those of `Log.append` (MESSAGE_TOO_LARGE, INVALID_TIMESTAMP, …).
        """
        log, role = self.log, self.role
        if self._waiters.refusal is not None or self._internal:
            raise ApiError(self._waiters.refusal or ErrorCode.INVALID_TOPIC_EXCEPTION)
        if log.context.low:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, log.context.low)
        if role.too_few_replicas and required_acks == ACKS_ALL:
            raise self._not_enough_replicas()
        if header[PRODUCER_ID] >= 0:
            if header[ATTRIBUTES] & TRANSACTIONAL:
                log.producers.check_transactional(header, begins)
            first = log.producers.check(header, now_ms)
            if first is not None:
                return self._duplicate(first, required_acks)
        try:
            base_offset, last_offset, append_time_ms = log.append(
                batch, header, role.leader_epoch, now_ms, Origin.CLIENT
            )
        except StorageError as error:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        self._settle(required_acks)
        self.traffic.records_in += last_offset - base_offset + 1
        self.traffic.bytes_in += len(batch)
        fields = base_offset, last_offset, append_time_ms, last_offset + 1, False
        appended: Appended = _new(Appended, fields)
        return appended

    def append_run(
        self,
        batches: list[memoryview],
        headers: list[BatchHeader],
        *,
        now_ms: int,
        required_acks: int = ACKS_ALL,
    ) -> int:
        """Append several checked batches at `log.end_offset`, as `append` would; return how many.

        Stops before the first batch that needs more than a write; that one is unchanged and must go
        through `append`. Raises no refusal.
        """
        if self._waiters.refusal is not None or self._internal or self.inspected:
            return 0
        log = self.log
        if self.role.too_few_replicas or log.context.low:
            return 0
        count = log.producers.new_of(headers, now_ms)
        if count < len(batches):
            batches, headers = batches[:count], headers[:count]
        before = log.end_offset
        count = append_run(log, batches, headers, self.role.leader_epoch, now_ms) if count else 0
        if count:
            self._settle(required_acks)
            self.traffic.records_in += log.end_offset - before
            self.traffic.bytes_in += sum(map(len, batches[:count]))
        return count

    def _settle(self, required_acks: int) -> None:
        """Request what makes the appended records committed and readable: a flush, or followers."""
        role = self.role
        if not role.flushes_on_ack:
            role.settle_unflushed()
        elif required_acks == ACKS_ALL:
            self._flush_soon(self.log)
        else:
            self._flush_later(self.log)
        if role.term is not None:
            role.term.log_grew()

    def append_internal(self, batch: Buffer, *, now_ms: int | None = None) -> Appended:
        """Append a coordinator's batch (`record.batch.build`), to any topic.

        `batch` is not changed. Without `now_ms` the batch's own timestamp is used.
        ApiError: KAFKA_STORAGE_ERROR, NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS, and
        INVALID_PRODUCER_EPOCH for a transactional batch of an outdated producer.
        """
        if self._waiters.refusal is not None:
            raise ApiError(self._waiters.refusal)
        if self.role.too_few_replicas:
            raise self._not_enough_replicas()
        own = memoryview(bytearray(batch))
        header = parse_header(own)
        if header.producer_id >= 0:
            self.log.producers.check_epoch(header.producer_id, header.producer_epoch)
        now = header.max_timestamp if now_ms is None else now_ms
        try:
            base_offset, last_offset, append_time_ms = self.log.append(
                own, header, self.role.leader_epoch, now, Origin.COORDINATOR
            )
            if not self.role.flushes_on_ack:
                self.write_held()
        except StorageError as error:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        self._settle(ACKS_ALL)
        return Appended(
            base_offset, last_offset, append_time_ms, Offset(last_offset + 1), duplicate=False
        )

    def write_held(self) -> None:
        """Write what the disk has delayed, as answers follow without a flush. Raises StorageError.

        The pass that delays it may be another connection's.
        """
        file = self.log.segments.active.file
        try:
            file.write_held()
        except OSError as error:
            raise self.log.context.fail(error, file.path) from error

    def append_marker(
        self,
        producer_id: int,
        epoch: int,
        *,
        commit: bool,
        coordinator_epoch: int,
        now_ms: int,
    ) -> Appended:
        """End the producer's transaction here; without one only its epoch advances.

        ApiError: as `append_internal`, and TRANSACTION_COORDINATOR_FENCED if a later coordinator
        has written before.
        """
        if self._waiters.refusal is None:
            self.log.producers.check_epoch(producer_id, epoch, coordinator_epoch)
        marker = build_marker(
            ControlType.COMMIT if commit else ControlType.ABORT,
            coordinator_epoch,
            producer_id=producer_id,
            producer_epoch=epoch,
            timestamp=now_ms,
        )
        return self.append_internal(marker, now_ms=now_ms)

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Refuse a client whose leader epoch for this partition differs; -1: it sent none.

        ApiError: FENCED_LEADER_EPOCH (the client's is older), UNKNOWN_LEADER_EPOCH (newer).
        """
        leader_epoch = self.role.leader_epoch
        if current_leader_epoch in (-1, leader_epoch):
            return
        if current_leader_epoch < leader_epoch:
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)
        raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    def read(
        self,
        offset: Offset,
        max_bytes: int,
        *,
        read_committed: bool = False,
        at_least_one: bool = True,
    ) -> ReadResult | NeedsDisk:
        """Return whole batches from the one with `offset` on, below this reader's end offset.

        Empty between that and the log's end. ApiError: OFFSET_OUT_OF_RANGE outside of the log,
        KAFKA_STORAGE_ERROR, NOT_LEADER_OR_FOLLOWER, TOPIC_AUTHORIZATION_FAILED (closed topics).
        """
        end = self._readable_end(read_committed)
        return self.log.read(offset, max_bytes, below=end, at_least_one=at_least_one)

    def serve(
        self,
        offset: Offset,
        max_bytes: int,
        *,
        read_committed: bool = False,
        at_least_one: bool = True,
    ) -> Served | NeedsDisk:
        """Return batches for a client as `read` does; large data as a range of its file."""
        end = self._readable_end(read_committed)
        return self.log.serve(offset, max_bytes, below=end, at_least_one=at_least_one)

    def _readable_end(self, read_committed: bool) -> Offset:
        if self._waiters.refusal is not None and self.role.follower is None:
            raise ApiError(self._waiters.refusal)
        if self._closed:
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return self.last_stable_offset if read_committed else self.log.high_watermark

    def end_offset_for_epoch(self, epoch: LeaderEpoch) -> tuple[LeaderEpoch, Offset]:
        """Return the greatest epoch not above `epoch` and its end offset; (-1, -1) if unknown."""
        log = self.log
        latest = log.epochs.latest
        if not latest < epoch <= self.leader_epoch:
            return log.end_offset_for_epoch(epoch)
        # Nothing was appended under the current epoch yet: it begins at the log's end, where the
        # one before ends. A log without any epoch knows no other that it could end (Kafka's
        # endOffsetFor).
        known = latest if latest >= 0 and epoch < self.leader_epoch else epoch
        return known, log.end_offset

    def delete_records(self, before: int) -> Offset:
        """Move the log's start up to `before` (-1: the high watermark); return the new start.

        Durable with the directory's next checkpoint. ApiError: OFFSET_OUT_OF_RANGE above the high
        watermark, POLICY_VIOLATION if the topic is only compacted, INVALID_TOPIC_EXCEPTION for
        internal topics, KAFKA_STORAGE_ERROR.
        """
        if self._waiters.refusal is not None or self._internal:
            raise ApiError(self._waiters.refusal or ErrorCode.INVALID_TOPIC_EXCEPTION)
        if "delete" not in self.log.config.cleanup_policy:
            raise ApiError(ErrorCode.POLICY_VIOLATION, "the topic's cleanup.policy has no delete")
        wanted = self.high_watermark if before == TO_HIGH_WATERMARK else before
        if not 0 <= wanted <= self.high_watermark:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        try:
            return self.log.delete_records(Offset(wanted))
        except StorageError as error:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error

    def move_to(self, log: Log, flusher: Flusher) -> None:
        """Replace the log by its copy in another directory, under the same role."""
        self.log = log
        self._flush_soon, self._flush_later = flusher.flush_soon, flusher.flush_later
        self.role.move_to(log, flusher)
        self._look_into(log.config)

    def reconfigure(self, config: LogConfig) -> None:
        """Apply new settings of the topic."""
        self.log.config = config
        self.role.reconfigured()
        self._look_into(config)

    def _look_into(self, config: LogConfig) -> None:
        self.keys_needed = config.compacted and not self._internal
        recompressed = config.compression_type != "producer" and not self._internal
        self.inspected = self.keys_needed or recompressed

    def _duplicate(self, first: Duplicate, required_acks: int) -> Appended:
        # The first append may still wait for its flush; this answer must wait for it too.
        unflushed = self.role.flushes_on_ack and first.last_offset >= self.high_watermark
        if unflushed and required_acks == ACKS_ALL:
            self._flush_soon(self.log)
        stamped = self.log.config.log_append_time
        return Appended(
            first.base_offset,
            first.last_offset,
            first.timestamp if stamped else -1,
            Offset(first.last_offset + 1),
            duplicate=True,
        )

    def _not_enough_replicas(self) -> ApiError:
        term = self.role.term
        told = None
        if term is not None:
            told = (
                f"{len(term.in_sync)} in-sync replicas of {self.topic_partition},"
                f" min.insync.replicas is {term.in_sync_needed}"
            )
        return ApiError(ErrorCode.NOT_ENOUGH_REPLICAS, told)
