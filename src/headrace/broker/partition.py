"""One partition: its log and its role; who may append, when that holds for good, what is readable.

* A partition leads or follows, or does neither; nothing of the log goes when that changes.
* The high watermark is the offset below which every in-sync replica holds the log on disk. With
  `flush_on_ack` (the default) it never passes `log.flushed_offset`; without, it is the log's end.
  The log keeps it; the role says how far it may go, where there are other replicas.
* `append` says what must become true before acks=all may be answered: `Appended.commit_offset`.
  `when_committed` calls back when it is, in the order of asking.
* Readers see whole batches below the high watermark, or below the last stable offset.

Everything here runs on the one deciding thread and never waits.
"""

from headrace.broker.appended import Appended
from headrace.broker.replica.partition_role import PartitionRole
from headrace.broker.watchable import Watched
from headrace.config.log_config import LogConfig
from headrace.log.append_run import append_run
from headrace.log.flusher import Flusher
from headrace.log.log import Log, NeedsDisk, Origin, ReadResult, Served
from headrace.log.producers.producer_states import Begins, Duplicate
from headrace.model.errors import ApiError, ErrorCode, StorageError
from headrace.model.nouns import INTERNAL_TOPICS, LeaderEpoch, Offset, TopicPartition
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


_new = tuple.__new__


class Partition(Watched):
    """A partition that this broker holds a replica of."""

    __slots__ = (
        "_flush_later",
        "_flush_soon",
        "_internal",
        "_waiters",
        "inspected",
        "keys_needed",
        "log",
        "role",
        "topic_partition",
        "traffic",
        "when_committed",
    )

    def __init__(self, log: Log, *, flusher: Flusher, flush_on_ack: bool = True) -> None:
        """Hold `log`, in no role yet: NOT_LEADER_OR_FOLLOWER is answered."""
        super().__init__()
        self.log = log
        self.traffic = TopicTraffic()
        self.topic_partition: TopicPartition = log.topic_partition
        self.role = PartitionRole(log, flusher, self._watchers, flush_on_ack=flush_on_ack)
        self._waiters = self.role.waiters
        self.when_committed = self._waiters.when_committed
        self._flush_soon = flusher.flush_soon
        self._flush_later = flusher.flush_later
        self._internal = self.topic_partition.topic in INTERNAL_TOPICS
        self.keys_needed = False
        """Whether a client's record without a key is to be refused, which is for him who decodes
        the request: records are not looked at here. Internal topics take nothing from clients."""
        self.inspected = False
        """Whether that, or a codec of its own, has clients' records looked into."""
        self._look_into(log.config)

    def close(self, because: ErrorCode) -> None:
        """Serve nothing any more, for good; who waits is told `because`. The log is not touched."""
        self.role.close(because)

    @property
    def refusal(self) -> ErrorCode | None:
        """Why nothing is served, or None while the partition leads."""
        return self._waiters.refusal

    @property
    def leader_epoch(self) -> LeaderEpoch:
        """The epoch of the role; -1 before the first one."""
        return self.role.leader_epoch

    @property
    def high_watermark(self) -> Offset:
        """All in-sync replicas hold what is below it."""
        return self.log.high_watermark

    @property
    def topic_id(self) -> bytes:
        """The topic's 16-byte id."""
        return self.log.topic_id

    @property
    def log_start_offset(self) -> Offset:
        """The first offset that is still there."""
        return self.log.start_offset

    @property
    def last_stable_offset(self) -> Offset:
        """No readable transaction is undecided below it; from the log's start to the high
        watermark."""
        return self.log.last_stable_offset(self.log.high_watermark)

    def readable_end(self, read_committed: bool) -> Offset:
        """Return the exclusive end of what a client with this isolation may see."""
        return self.last_stable_offset if read_committed else self.high_watermark

    def check_end_known(self) -> None:
        """Refuse to tell the end before all that earlier leaders committed is known (KIP-207).

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

        `batch` is written before this returns and not kept. A batch that the last five of its
        producer contain is not written again: its first offsets are the answer. `begins`: whether
        its coordinator knows that its transaction reaches this partition; it need not be asked
        where the transaction is open here (`log.producers.is_open`).

        ApiError: KAFKA_STORAGE_ERROR, NOT_LEADER_OR_FOLLOWER, INVALID_TOPIC_EXCEPTION (internal
        topics), NOT_ENOUGH_REPLICAS (acks=all only), INVALID_TXN_STATE (transactional and in no
        transaction, or the other way round), OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH,
        and what `Log.append` refuses (MESSAGE_TOO_LARGE, INVALID_TIMESTAMP, …).
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
        """Append several checked batches from `log.end_offset` on, as `append` would; how many.

        Only those, from the first on, that need nothing else than to be written. The one behind
        them is as it was, and `append` says what is to be said of it. Refuses nothing.
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
        """Have what was just appended hold for good, and readable, as soon as somebody asks."""
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
        """Append a coordinator's own batch (`record.batch.build`), to any topic.

        `batch` is not changed. Without `now_ms` the batch's own time counts as now.
        ApiError: KAFKA_STORAGE_ERROR, NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS, and
        INVALID_PRODUCER_EPOCH for a batch of a transaction whose producer is outdated.
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
                self._write_held()
        except StorageError as error:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        self._settle(ACKS_ALL)
        return Appended(
            base_offset, last_offset, append_time_ms, Offset(last_offset + 1), duplicate=False
        )

    def _write_held(self) -> None:
        """Have written what the disk holds back: who waits for no flush is answered. StorageError.

        The pass that holds it back is not theirs alone: members on other connections wait, too.
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
        """End the producer's transaction here; without one only its epoch moves on.

        ApiError: as `append_internal`, and TRANSACTION_COORDINATOR_FENCED where a later coordinator
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
        """Refuse a client whose picture of this partition is not ours; -1: it has none.

        ApiError: FENCED_LEADER_EPOCH (its picture is older), UNKNOWN_LEADER_EPOCH (newer).
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
        """Read whole batches from the one that holds `offset` on, below what this reader may see.

        Empty between the readable end and the log's end. ApiError: OFFSET_OUT_OF_RANGE outside the
        log, KAFKA_STORAGE_ERROR, NOT_LEADER_OR_FOLLOWER.
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
        """Read as `read` does, for a client's answer: much data comes as a range of its file."""
        end = self._readable_end(read_committed)
        return self.log.serve(offset, max_bytes, below=end, at_least_one=at_least_one)

    def _readable_end(self, read_committed: bool) -> Offset:
        if self._waiters.refusal is not None and self.role.follower is None:
            raise ApiError(self._waiters.refusal)
        return self.last_stable_offset if read_committed else self.log.high_watermark

    def end_offset_for_epoch(self, epoch: LeaderEpoch) -> tuple[LeaderEpoch, Offset]:
        """Return the largest epoch up to `epoch` and where it ends.

        (-1, -1) where that is not known.
        """
        log = self.log
        latest = log.epochs.latest
        if not latest < epoch <= self.leader_epoch:
            return log.end_offset_for_epoch(epoch)
        # Nothing was appended under our epoch yet: it begins, and the one before ends, at the end.
        # A log without any epoch knows of no other that it could end (Kafka's endOffsetFor).
        known = latest if latest >= 0 and epoch < self.leader_epoch else epoch
        return known, log.end_offset

    def delete_records(self, before: int) -> Offset:
        """Move the log's start up to `before` (-1: the high watermark); returns the new start.

        Durable with the directory's next checkpoint. ApiError: OFFSET_OUT_OF_RANGE beyond the high
        watermark, POLICY_VIOLATION where the topic is compacted only, INVALID_TOPIC_EXCEPTION for
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
        """Go on in a copy of the log, in another directory; the role is as it was."""
        self.log = log
        self._flush_soon, self._flush_later = flusher.flush_soon, flusher.flush_later
        self.role.move_to(log, flusher)
        self._look_into(log.config)

    def reconfigure(self, config: LogConfig) -> None:
        """Take new settings of the topic at once."""
        self.log.config = config
        self.role.reconfigured()
        self._look_into(config)

    def _look_into(self, config: LogConfig) -> None:
        self.keys_needed = config.compacted and not self._internal
        recompressed = config.compression_type != "producer" and not self._internal
        self.inspected = self.keys_needed or recompressed

    def _duplicate(self, first: Duplicate, required_acks: int) -> Appended:
        # The first attempt may still wait for its flush: so must this answer, and not for long.
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
                f" min.insync.replicas asks for {term.in_sync_needed}"
            )
        return ApiError(ErrorCode.NOT_ENOUGH_REPLICAS, told)
