"""Whether a recovered log agrees with its history, and with itself."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.log.log import Log
from headrace.log.producers.kept_states import BATCHES_KEPT
from headrace.log.producers.producer_states import Duplicate
from headrace.model.errors import ApiError
from headrace.model.nouns import Offset
from headrace.record import batch as wire
from tests.support.log.log import NOW_MS, read

if TYPE_CHECKING:
    from tests.support.log.crash import History

Batch = tuple[wire.BatchHeader, bytes]


def recovered_problems(history: "History", cut: int, log: Log) -> Iterator[str]:
    """What contradicts the notes, or itself."""
    try:
        found = stored_batches(log)
    except ApiError as error:
        yield f"cannot be read: {error}"
        return
    yield from _against_promises(history, cut, log)
    yield from _against_told(history, cut, log, found)
    yield from agrees_with_itself(log, found)


def stored_batches(log: Log) -> list[Batch]:
    """Every batch a reader gets from the log's start on, in order."""
    at, found = log.start_offset, []
    while at < log.end_offset:
        result = read(log, at, 400, below=log.end_offset)
        if not result.data:
            break
        data = bytes(result.data)
        for position, header in wire.iterate(data):
            found.append((header, data[position : position + wire.size_of(header)]))
        assert result.next_offset > at
        at = result.next_offset
    return found


def _last(header: wire.BatchHeader) -> int:
    return header.base_offset + header.last_offset_delta


def _against_promises(history: "History", cut: int, log: Log) -> Iterator[str]:
    promised = history.promised(cut)
    if promised is not None and log.end_offset < promised:
        yield f"ends at {log.end_offset}, {promised} were flushed"
    if log.start_offset > history.start_by(cut):
        yield f"starts at {log.start_offset}, moved up only to {history.start_by(cut)}"
    if log.start_offset < history.start_from(cut):
        yield f"starts at {log.start_offset}, was moved up to {history.start_from(cut)} for good"
    if log.flushed_offset != log.end_offset:
        yield f"flushed to {log.flushed_offset} of {log.end_offset} after its recovery"
    mark = max(history.mark_by(cut), log.start_offset)
    if log.high_watermark > mark:
        yield f"high watermark {log.high_watermark} above the {mark} that were flushed"


def _against_told(history: "History", cut: int, log: Log, found: list[Batch]) -> Iterator[str]:
    possible = history.possible(cut)
    expected: int = log.start_offset
    for header, data in found:
        if not any(told.data == data for told in possible.get(header.base_offset, ())):
            yield f"offset {header.base_offset} holds what was never told: {data[61:]!r}"
        if header.base_offset > expected:
            yield f"a hole from {expected} to {header.base_offset}"
        expected = _last(header) + 1
    if expected != log.end_offset:
        yield f"reading ends at {expected}, the log at {log.end_offset}"


def agrees_with_itself(log: Log, found: list[Batch]) -> Iterator[str]:
    """Indexes, epochs, producers and aborted transactions say what the batches say."""
    yield from _every_offset_is_found(log, found)
    yield from _times(log, found)
    for header, _ in found:
        known = log.epochs.epoch_of(Offset(max(header.base_offset, log.start_offset)))
        if known != header.leader_epoch:
            yield f"offset {header.base_offset} is of epoch {header.leader_epoch}, told {known}"
    yield from _producers(log, found)
    yield from _transactions(log, found)


def _every_offset_is_found(log: Log, found: list[Batch]) -> Iterator[str]:
    for header, data in found:
        for offset in {max(header.base_offset, log.start_offset), _last(header)}:
            log.segments.forget_ends()
            result = read(log, Offset(offset), 1, below=log.end_offset)
            if bytes(result.data) != data:
                yield f"reading from {offset} gives another batch"


def _times(log: Log, found: list[Batch]) -> Iterator[str]:
    records = [
        record
        for _, data in found
        for record in wire.records(data)
        if record.offset >= log.start_offset
    ]
    for wanted in sorted({record.timestamp for record in records}):
        first = next(record.offset for record in records if record.timestamp >= wanted)
        answer = log.offset_for_time(wanted)
        if answer is None or answer[1] != first:
            yield f"time {wanted} is first at {first}, told {answer}"
    if records:
        newest = max(record.timestamp for record in records)
        first = next(record.offset for record in records if record.timestamp == newest)
        answer = log.max_timestamp_offset()
        if answer is None or answer[:2] != (newest, first):
            yield f"the newest record is {first} at {newest}, told {answer}"


def _producers(log: Log, found: list[Batch]) -> Iterator[str]:
    last: dict[int, list[wire.BatchHeader]] = {}
    for header, _ in found:
        if header.producer_id >= 0 and not header.attributes & wire.CONTROL:
            mine = last.setdefault(header.producer_id, [])
            if mine and mine[-1].producer_epoch != header.producer_epoch:
                mine.clear()
            mine.append(header)
    for producer, headers in last.items():
        for header in headers[-BATCHES_KEPT:]:
            answer = _checked(log, header)
            if not isinstance(answer, Duplicate) or answer[:2] != (
                header.base_offset,
                _last(header),
            ):
                yield f"a retry of producer {producer}'s {header.base_offset} gets {answer}"
        gap = headers[-1]._replace(base_sequence=headers[-1].base_sequence + 100)
        if not isinstance(_checked(log, gap), ApiError):
            yield f"a gap of producer {producer} is let through"


def _checked(log: Log, header: wire.BatchHeader) -> Duplicate | ApiError | None:
    try:
        return log.producers.check(header, NOW_MS)
    except ApiError as error:
        return error


def _transactions(log: Log, found: list[Batch]) -> Iterator[str]:
    began: dict[int, int] = {}
    aborted: list[tuple[int, int, int]] = []
    for header, data in found:
        producer = header.producer_id
        if header.attributes & wire.CONTROL:
            first = began.pop(producer, None)
            marker = wire.parse_control(next(iter(wire.records(data))))
            if first is not None and marker.type is wire.ControlType.ABORT:
                aborted.append((producer, first, header.base_offset))
        elif header.attributes & wire.TRANSACTIONAL:
            began.setdefault(producer, header.base_offset)
    if log.start_offset == 0:
        told = [one[:3] for one in log.aborted_transactions(Offset(0), log.end_offset)]
        if told != aborted:
            yield f"aborted are {aborted}, told {told}"
    undecided = min(began.values(), default=None)
    if log.first_unstable_offset() != undecided:
        yield f"undecided from {undecided} on, told {log.first_unstable_offset()}"
