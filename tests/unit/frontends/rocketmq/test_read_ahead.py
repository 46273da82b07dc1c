"""Reads of the log that several pulls share: continued at their offset, forgotten when unused."""

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.frontends.rocketmq.pulling.read_ahead import READERS_MAX, ReadAhead
from headrace.frontends.rocketmq.pulling.reading import MessageReader, ReadLimits
from headrace.log.segment.batch_reader import ReadResult
from headrace.model.nouns import Offset
from headrace.record.batch import Codec, recompress, stamp
from headrace.wire.rocketmq.pulled_messages import PulledQueue
from headrace.wire.rocketmq.record_header import MessageFacts
from headrace.wire.rocketmq.sent_messages import SentMessage, encode_batch_of
from headrace.wire.rocketmq.stored_messages import decode_messages

QUEUE = PulledQueue(b"orders", 0, 5, bytes(8), b"A\x01b\x02")
FACTS = MessageFacts(0, 0, 5, 0, bytes(8), b"TAGS\x01A\x02")
LOG: Any = SimpleNamespace(truncations=0, aborted_transactions=lambda start, end: [])


def batches(*sizes: int, codec: Codec = Codec.NONE) -> bytes:
    """Return batches of so many messages each; compressed if a codec is named."""
    data, offset = b"", 0
    for size in sizes:
        bodies = [b"%d" % number for number in range(offset, offset + size)]
        made: bytes | bytearray = encode_batch_of([SentMessage(body, FACTS) for body in bodies], 9)
        if codec is not Codec.NONE:
            made = recompress(made, codec, None)
        batch = bytearray(made)
        stamp(batch, offset, 0)
        data += batch
        offset += size
    return data


def reader(data: bytes, end: int, at: int = 0) -> MessageReader:
    """Return a reader of these batches, all below offset `end`."""
    return MessageReader(LOG, ReadResult(data, Offset(end)), at, end)


def taken(found: MessageReader, count: int, bytes_max: int = 1 << 20) -> list[int]:
    """Return the offsets of the next messages."""
    messages = found.take(QUEUE, ReadLimits(count, bytes_max))
    offsets = [one.queue_offset for one in decode_messages(b"".join(messages.parts))]
    assert (len(offsets), found.at) == (messages.message_count, messages.next_offset)
    return offsets


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_reader_returns_each_message_once_across_its_batches(codec: Codec) -> None:
    found = reader(batches(3, 1, 4, codec=codec), 8)
    steps = []
    while not found.is_done:
        steps.append(taken(found, 3))
    assert steps == [[0, 1, 2], [3, 4, 5], [6, 7], []] or steps == [[0, 1, 2], [3, 4, 5], [6, 7]]


def test_reader_begins_within_a_batch() -> None:
    found = reader(batches(3, 5), 8, at=5)
    assert taken(found, 2) == [5, 6]
    assert taken(found, 9) == [7]


def test_first_message_of_a_step_has_any_size_and_no_other() -> None:
    found = reader(batches(2, 2), 4)
    assert [taken(found, 9, bytes_max=1) for _ in range(4)] == [[0], [1], [2], [3]]


def test_messages_beyond_the_bytes_of_a_step_are_left_for_the_next() -> None:
    size = len(b"".join(reader(batches(1), 1).take(QUEUE, ReadLimits(1)).parts))
    found = reader(batches(1, 3), 4)
    assert taken(found, 9, bytes_max=2 * size + 1) == [0, 1]
    assert taken(found, 9, bytes_max=2 * size + 1) == [2, 3]


def test_messages_that_are_not_wanted_are_passed_over_once() -> None:
    found = reader(batches(4), 4)
    read = found.take(QUEUE, ReadLimits(1, records=3), lambda properties: False)
    assert (read.message_count, read.next_offset) == (0, 3)
    assert taken(found, 9) == [3]


def test_only_reads_of_compressed_or_long_batches_take_long() -> None:
    assert reader(batches(1, codec=Codec.LZ4), 1).takes_long(1000, wants_all=True)
    assert not reader(batches(5, 5), 10).takes_long(5, wants_all=True)
    assert reader(batches(5, 5), 10).takes_long(9, wants_all=False)
    assert reader(batches(6, 1), 7).takes_long(5, wants_all=True)


def test_the_rest_of_a_read_is_for_the_next_offset_of_its_log_alone() -> None:
    ahead, place = ReadAhead(), ("g", "t", 0)
    rest = reader(batches(4), 4)
    taken(rest, 2)
    ahead.keep(place, LOG, rest)
    assert ahead.take(("other", "t", 0), LOG, 2) is None
    assert ahead.take(place, LOG, 2) is rest
    assert ahead.take(place, LOG, 2) is None, "it is used once"
    for log, offset in ((LOG, 3), (SimpleNamespace(truncations=0), 2)):
        ahead.keep(place, LOG, rest)
        assert ahead.take(place, log, offset) is None  # type: ignore[arg-type]
        assert len(ahead) == 0


def test_a_truncated_log_is_read_again() -> None:
    log: Any = SimpleNamespace(truncations=0)
    ahead, place = ReadAhead(), ("g", "t", 0)
    ahead.keep(place, log, reader(batches(4), 4))
    log.truncations += 1
    assert ahead.take(place, log, 0) is None


def test_reads_that_no_pull_continues_are_forgotten() -> None:
    ahead = ReadAhead()
    for number in range(READERS_MAX + 5):
        ahead.keep(("g", "t", number), LOG, reader(batches(2), 2))
    assert len(ahead) == READERS_MAX
    assert ahead.take(("g", "t", 4), LOG, 0) is None
    ahead.expire()
    ahead.keep(("g", "t", 9), LOG, reader(batches(2), 2))
    ahead.expire()
    assert len(ahead) == 1
    ahead.expire()
    assert len(ahead) == 0
