"""A task of the source: fetch a range of offsets, decode it, yield RecordBatches.

The next fetch is sent before the last response is decoded, so the broker reads while the task
decodes. A task ends when its whole range has been read, however few records are left in it.
"""

import logging
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from headrace.arrow.read.decode import ROWS_MAX, PartitionDecoder
from headrace.arrow.typed.typed_rows import Decoding
from headrace.client.calls.call import RETRIABLE, error_code
from headrace.client.calls.offsets import EARLIEST, LATEST, list_offsets
from headrace.client.consumer.damage import (
    OF_DAMAGE,
    DamagePlace,
    file_of,
    next_sound_offset,
    place_of_damage,
)
from headrace.client.sync import FetchConnection, Fetched, Wanted, run
from headrace.client.transport.port import Address, ClientError, Refused
from headrace.model.errors import ApiError, ErrorCode, HeadraceError
from headrace.model.nouns import TopicPartition
from headrace.record.batch import next_offset
from headrace.record.compression import CorruptBatch
from headrace.record.last_batch import last_header
from headrace.spark.broker_errors import source_error
from headrace.spark.errors import BrokerAwayError, DataLossError, SourceError
from headrace.spark.quarantine.range_task import TaskQuarantine
from headrace.spark.source.connections import kept_connections
from headrace.spark.source.options import Fetching
from headrace.wire.kafka.primitives import NO_UUID

_log = logging.getLogger(__name__)

_BACKOFF_SECONDS = 0.1
_FIRST_GUESS_BYTES = 256
"""Assumed stored size of one offset before any was seen, so that a small range's fetch stays
small."""
_FETCH_BYTES_MIN = 64 * 1024
_TOPIC_SECONDS = 3.0


@dataclass(frozen=True)
class RangePartition(InputPartition):
    """A task: read offsets `begin` to `end` (exclusive) of one partition."""

    bootstrap: str
    topic: str
    partition: int
    begin: int
    end: int
    columns: tuple[str, ...]
    fail_on_data_loss: bool
    fetching: Fetching
    leader: Address | None = None
    """The partition's leader when the task was planned; None if unknown."""
    topic_id: bytes = NO_UUID
    """The topic's id when the task was planned; NO_UUID if unknown."""
    from_earliest: bool = False
    """Whether `begin` was `earliest`, so that records deleted since are no data loss."""
    required: frozenset[str] = frozenset()
    """Columns that the schema declares NOT NULL."""
    typed: Decoding | None = None
    """How values are decoded after they are read."""
    record_columns: tuple[str, ...] = ()
    """Of typed rows: the record's columns after the fields."""
    quarantine: TaskQuarantine | None = None
    """Where refused records are spooled; None unless mode=QUARANTINE."""
    unknown_keys: str | None = None
    """Directory for counts of keys that the schema does not declare; None: not counted."""

    @property
    def place(self) -> TopicPartition:
        """The partition that the task reads."""
        return TopicPartition(self.topic, self.partition)


class _Moved(Exception):
    """The fetch must be retried: the leader changed or the connection was lost."""


class RangeReader:
    """Reads one range of offsets, reconnecting as often as needed."""

    def __init__(self, task: RangePartition) -> None:
        self._task = task
        self._fetching = task.fetching
        self._client = task.fetching.security.client(
            task.bootstrap,
            client_id=task.fetching.client_id,
            request_timeout_seconds=task.fetching.request_timeout_ms / 1000,
            retry_seconds=task.fetching.poll_timeout_ms / 1000,
        )
        self._decoder = PartitionDecoder(
            task.topic,
            task.partition,
            offset_from=task.begin,
            offset_until=task.end,
            columns=task.columns,
            required=task.required,
            rows_max=max(1, min(ROWS_MAX, task.end - task.begin)),
            on_corrupt=None if task.fail_on_data_loss else _warn_of_corruption,
        )
        self._leader = task.leader
        self._topic_id = task.topic_id
        self._offset_bytes = float(_FIRST_GUESS_BYTES)
        self._nothing_came = False
        self._damage_met: tuple[ErrorCode, int] | None = None
        self._progress_at = time.monotonic()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the records of the range in order."""
        try:
            while not self._decoder.done:
                try:
                    yield from self._over_one_connection()
                except _Moved as moved:
                    self._wait_or_give_up(str(moved))
            yield from self._decoder.flush()
        finally:
            self._client.close()

    def _over_one_connection(self) -> Iterator[pa.RecordBatch]:
        leader, self._leader = self._leader or self._find_leader(), None
        if leader is None:
            return
        fetching = self._fetching
        try:
            connection = kept_connections.take(
                leader, fetching.client_id, fetching.request_timeout_ms / 1000, fetching.security
            )
        except ClientError as error:
            raise _passing(error) from error
        try:
            yield from self._fetch_all(connection)
        finally:
            kept_connections.give_back(connection, fetching.security)

    def _find_leader(self) -> Address | None:
        """Return the leader's current address; None if the topic was deleted and that is no
        error."""
        task = self._task
        try:
            known = run(self._client.leaders([task.topic], retry_seconds=_TOPIC_SECONDS))
            leader = known.brokers[known.leader(*task.place)]
        except ApiError as error:
            if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                self._lost(f"{task.place} is gone")
                return None
            raise source_error(error) from error
        except ClientError as error:
            raise _passing(error) from error
        topic_id = known.topics[task.topic].topic_id
        if NO_UUID not in (task.topic_id, topic_id) and task.topic_id != topic_id:
            self._lost(f"{task.topic} was deleted and made again since the batch was planned")
            return None
        self._topic_id = topic_id
        return leader

    def _fetch_all(self, connection: FetchConnection) -> Iterator[pa.RecordBatch]:
        self._send(connection, self._decoder.position)
        while not self._decoder.done:
            fetched = self._receive(connection)
            if not self._sound(fetched):
                if not self._decoder.done:
                    self._send(connection, self._decoder.position)
                continue
            following = _following(fetched, self._decoder.position)
            if following > self._decoder.position:
                read = following - self._decoder.position
                self._offset_bytes = len(fetched.records) / read
            if following < self._task.end:
                self._send(connection, following)
            if following > self._decoder.position:
                self._progress_at = time.monotonic()
                self._nothing_came = False
                yield from self._decoded(fetched)
            else:
                self._starved(fetched)

    def _send(self, connection: FetchConnection, offset: int) -> None:
        task, fetching = self._task, self._fetching
        # A quarter more, so that slightly larger records do not need another fetch.
        left_bytes = int((task.end - offset) * self._offset_bytes * 1.25)
        partition_bytes = min(fetching.partition_bytes, max(left_bytes, _FETCH_BYTES_MIN))
        wanted = Wanted(task.topic, self._topic_id, task.partition, offset, partition_bytes)
        try:
            connection.send(
                [wanted],
                max_bytes=fetching.max_bytes,
                min_bytes=fetching.min_bytes,
                max_wait_ms=fetching.max_wait_ms,
                read_committed=fetching.read_committed,
            )
        except ClientError as error:
            raise _passing(error) from error

    def _receive(self, connection: FetchConnection) -> Fetched:
        try:
            answers = connection.receive()
        except ClientError as error:
            raise _passing(error) from error
        except ApiError as error:
            if error.code in RETRIABLE:
                raise _passing(error) from error
            raise source_error(error) from error
        if not answers:
            raise _Moved(f"the broker said nothing of {self._task.place}")
        return answers[0]

    def _sound(self, fetched: Fetched) -> bool:
        """Return True if the fetch succeeded; False after moving the position past a gap or damage.

        Raises SourceError, or _Moved for a retriable error.
        """
        if fetched.error_code == ErrorCode.NONE:
            return True
        code = error_code(fetched.error_code)
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._step_over_gap()
            return False
        if code in OF_DAMAGE and self._passed_damage(code):
            return False
        text = f"{code.name}: {self._task.place}"
        if code in RETRIABLE:
            raise _Moved(text)
        raise SourceError(text)

    def _passed_damage(self, code: ErrorCode) -> bool:
        """Skip corrupt records and return True; False if it is not certain that records are
        corrupt.

        SourceError names their file, unless failOnDataLoss is false.
        """
        position = self._decoder.position
        met, self._damage_met = self._damage_met, (code, position)
        if met != self._damage_met:
            # Retention may delete a segment while it is read, which gives the same error once.
            return False
        try:
            place = run(place_of_damage(self._client, self._task.place))
            if place is None:
                return False
            damage = self._damage(position, place, code.name)
            if self._task.fail_on_data_loss:
                raise _ended_by(damage)
            following = run(next_sound_offset(self._client, self._task.place, position))
        except (ClientError, ApiError) as error:
            raise _passing(error) from error
        _log.warning("%s; going on at %d", damage, following)
        self._decoder.position = min(following, self._task.end)
        return True

    def _damage(self, position: int, place: DamagePlace | None, why: str) -> str:
        where = f" in {file_of(place, position)} of broker {place.leader}" if place else ""
        return f"{self._task.place}: the records at offset {position} are damaged{where} ({why})"

    def _decoded(self, fetched: Fetched) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._decoder.feed(fetched.records, fetched.aborted)
        except CorruptBatch as error:
            place = None
            with suppress(ClientError, ApiError):  # The file's name is worth one request.
                place = run(place_of_damage(self._client, self._task.place))
            raise _ended_by(self._damage(self._decoder.position, place, str(error))) from error

    def _step_over_gap(self) -> None:
        """Continue at the log's start or end, as the position is outside of the log."""
        place, position = self._task.place, self._decoder.position
        earliest = self._end_of_log(EARLIEST)
        if position < earliest:
            until = min(earliest, self._task.end)
            if self._task.from_earliest and position == self._task.begin:
                _log.info("offsets %s to %s of %s were deleted meanwhile", position, until, place)
                self._decoder.position = until
                return
            self._lost(f"offsets {position} to {until - 1} of {place} are gone", go_on_at=until)
            return
        latest = self._end_of_log(LATEST)
        if position > latest:
            self._lost(f"{place} ends at {latest}, before offset {position}")
            return
        self._wait_or_give_up(f"offset {position} is in the log and refused as outside of it")

    def _end_of_log(self, which: int) -> int:
        place = self._task.place
        try:
            return run(list_offsets(self._client, {place: which}))[place].offset
        except (ClientError, ApiError) as error:
            raise _passing(error) from error

    def _lost(self, loss: str, go_on_at: int | None = None) -> None:
        if self._task.fail_on_data_loss:
            raise DataLossError(loss)
        _log.warning("%s; continuing without these records", loss)
        self._decoder.position = self._task.end if go_on_at is None else go_on_at

    def _starved(self, fetched: Fetched) -> None:
        """Wait if no records came although the range continues; end it if none are left in it.

        Compaction may have removed all records up to the log end. An empty response shows that if
        its high watermark is beyond the range; it is believed when it comes twice.
        """
        if len(fetched.records):
            raise SourceError(
                f"{self._task.place}: no whole batch within {len(fetched.records)} bytes at offset "
                f"{self._decoder.position}"
            )
        committed = self._fetching.read_committed
        visible = fetched.last_stable_offset if committed else fetched.high_watermark
        if visible >= self._task.end and self._nothing_came:
            self._decoder.position = self._task.end
            return
        self._nothing_came = visible >= self._task.end
        self._wait_or_give_up("no records", pause=0.0)

    def _wait_or_give_up(self, why: str, pause: float = _BACKOFF_SECONDS) -> None:
        waited = time.monotonic() - self._progress_at
        if waited > self._fetching.poll_timeout_ms / 1000:
            raise BrokerAwayError(
                f"{self._task.place}: nothing of offsets {self._decoder.position} to "
                f"{self._task.end - 1} came in {waited:.0f} s: {why}"
            )
        time.sleep(pause)


def _passing(error: HeadraceError) -> HeadraceError | _Moved:
    """Return the exception for a client error: SourceError if retries are pointless, else
    _Moved."""
    return SourceError(str(error)) if isinstance(error, Refused) else _Moved(str(error))


def _ended_by(damage: str) -> SourceError:
    return SourceError(
        f"{damage}: restore the file from a copy, or set failOnDataLoss to false to go on behind"
        " them"
    )


def _following(fetched: Fetched, position: int) -> int:
    """Return the offset after the last whole batch of a response; `position` if there is no
    batch."""
    try:
        header = last_header(fetched.records)
    except CorruptBatch as error:
        raise SourceError(f"{fetched.topic}-{fetched.partition}: {error}") from error
    return position if header is None else max(next_offset(header), position)


def _warn_of_corruption(error: CorruptBatch) -> None:
    _log.warning("stepped over a batch that cannot be read: %s", error)
