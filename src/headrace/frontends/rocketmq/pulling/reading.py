"""Records of a partition as messages: reads of the log, decoded. On any thread."""

from typing import TYPE_CHECKING, NamedTuple

from headrace.delivery.batches import stretches
from headrace.log.segment.batch_reader import ReadResult
from headrace.model.nouns import Offset
from headrace.record.batch import records
from headrace.wire.rocketmq.pulled_messages import PulledQueue, Wanted

if TYPE_CHECKING:
    from headrace.frontends.rocketmq.call import RemotingCall
    from headrace.frontends.rocketmq.serving import ServedTopic
    from headrace.log.log import Log

RECORDS_MAX = 1 << 31
"""More records than any read has: no bound."""
READ_BYTES = 256 * 1024
"""Bytes of the log that one read returns at most, and of an answer but for its first message."""


class ReadMessages(NamedTuple):
    """The messages of one read."""

    parts: list[bytes]
    message_count: int
    next_offset: int


class ReadLimits(NamedTuple):
    """The most that one read returns; a first message of any size is returned."""

    messages: int
    bytes: int = READ_BYTES
    records: int = RECORDS_MAX
    """Records that the filter looks at, wanted or not."""


def read_messages(
    log: "Log",
    queue: PulledQueue,
    at: int,
    end: int,
    limits: ReadLimits,
    wanted: Wanted | None = None,
) -> ReadMessages:
    """Read and decode some messages from offset `at` on, below `end`; may block.

    ApiError OFFSET_OUT_OF_RANGE: retention has deleted the offset.
    """
    read = log.read_from_disk(Offset(at), limits.bytes, below=Offset(end))
    return decoded(log, queue, read, at, end, limits, wanted)


def decoded(
    log: "Log",
    queue: PulledQueue,
    read: ReadResult,
    at: int,
    end: int,
    limits: ReadLimits,
    wanted: Wanted | None = None,
) -> ReadMessages:
    """Return the wanted messages of some batches from offset `at` on; may block."""
    data = read.data
    following = min(read.next_offset, end) if read.next_offset > at else end
    parts: list[bytes] = []
    count = size = seen = 0
    aborted = log.aborted_transactions(Offset(at), Offset(following))
    view = memoryview(data)
    for stretch in stretches(data, at, aborted):
        if not stretch.wanted:
            at = stretch.last + 1
            continue
        pulled = queue.pulled(
            records(view[stretch.begin : stretch.end]),
            at,
            count_max=limits.messages - count,
            # A first message of any size is delivered only if there is no other.
            bytes_max=limits.bytes - size,
            seen_max=limits.records - seen,
            wanted=wanted,
        )
        if parts and pulled.size > limits.bytes - size:
            break
        parts += pulled.parts
        count += pulled.message_count
        size += pulled.size
        seen += pulled.seen_count
        if pulled.is_full or count >= limits.messages or size >= limits.bytes:
            return ReadMessages(parts, count, pulled.next_offset)
        at = stretch.last + 1
    else:
        at = max(at, following)
    return ReadMessages(parts, count, at)


def queue_of(call: "RemotingCall", topic: "ServedTopic", queue_id: int, number: int) -> PulledQueue:
    """Return a queue whose messages a client gets; `number`: that of its partition."""
    return PulledQueue(
        topic.name.encode(),
        queue_id,
        number,
        call.peer.store_host,
        call.broker.added_properties,
    )
