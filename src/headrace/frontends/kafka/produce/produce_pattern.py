"""Patterns of Produce requests: the bytes that requests of a run have in common.

A `ProducePattern` is learned from one request with a single batch. It matches requests that differ
only in correlation id, partition and batch, and makes their answers.
"""

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from headrace.frontends.kafka.produce.commit_group import Framer
from headrace.model.errors import ApiError, Malformed
from headrace.record.batch import TRANSACTIONAL, BatchHeader, check_produced
from headrace.record.batch_layout import ATTRIBUTES, LAST_OFFSET_DELTA
from headrace.wire.kafka.frame import parse_request
from headrace.wire.kafka.hot.produce import (
    START_OFFSET_FROM,
    TOPIC_IDS_FROM,
    around_base_offset,
    decode_request,
    encode_records_size,
    tail_bytes,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.broker.partition import Partition

LENGTH_BYTES = 4
FIXED_BYTES = 8
"""Bytes of API key, version and correlation id."""
_INDEX_BYTES = 4
_INDEX_AND_ERROR_BYTES = 6
"""Bytes of index and error code, which precede the base offset in every answer."""
_OFFSET_BYTES = 8
_ACKS = (0, 1, -1)


class ProduceRoute(Framer, Protocol):
    """A version of Produce. Implemented by `route.Route`."""

    tagged_head: bool


class ProduceMatch(NamedTuple):
    """Consecutive requests that match a pattern and have valid batches."""

    indexes: list[int]
    """Partition index of each request; the other lists are as long."""
    batches: list[memoryview]
    headers: list[BatchHeader]
    correlation_ids: list[int]
    ends: list[int]


class ProducePattern:
    """The equal bytes of a run's requests, and the template of their answers."""

    __slots__ = (
        "_after", "_announced", "_answer_size", "_before", "_code", "_lead", "_pack",
        "_size", "_size_max", "_tail", "_unpack", "acks", "named", "route", "timeout_ms",
        "transactional_id", "version",
    )  # fmt: skip
    _pack: Callable[..., bytes]

    def __init__(self, code: int, route: ProduceRoute, frame: memoryview, size_max: int) -> None:
        """Learn from the request `frame`, without its length; raise Malformed if unsuitable."""
        self.version = version = route.version
        self.route = route
        request = decode_request(version, frame[parse_request(frame).body :])
        if len(request.topics) != 1 or request.acks not in _ACKS:
            raise Malformed("not the usual request")
        name, topic_id, partitions = request.topics[0]
        if len(partitions) != 1:
            raise Malformed("not the usual request")
        # The bytes are assumed to be at these positions; `find` compares them.
        records = partitions[0].records
        self.named = name, topic_id
        self.transactional_id = request.transactional_id
        self.acks, self.timeout_ms = request.acks, request.timeout_ms
        self._tail = bytes(tail_bytes(version))
        size = len(records or b"")
        self._code, self._size, self._size_max = code, len(frame), size_max
        self._announced = encode_records_size(version, size)
        index_at = len(frame) - len(self._tail) - size - len(self._announced) - _INDEX_BYTES
        self._lead = bytes(frame[FIXED_BYTES:index_at])
        shape = f">iii{len(self._lead)}si{len(self._announced)}s"
        self._unpack = struct.Struct(shape).unpack_from
        self._learn_answer(name, topic_id)

    def partition(self, broker: "Broker", index: int) -> "Partition":
        """Look up partition `index` of this pattern's topic; raise ApiError if not led here."""
        name, topic_id = self.named
        if self.version >= TOPIC_IDS_FROM:
            return broker.partition_by_id(topic_id, index)
        return broker.partition(name, index)

    def find(self, view: memoryview, at: int, filled: int, most: int) -> ProduceMatch:
        """Return the requests from `at` on that match, up to the first other one."""
        found = ProduceMatch([], [], [], [], [])
        indexes, batches, headers, correlation_ids, ends = found
        unpack, code, version, tail = self._unpack, self._code, self.version, self._tail
        # A transactional batch in a request without a transactional id is refused.
        refused = TRANSACTIONAL if self.transactional_id is None else 0
        skipped = LENGTH_BYTES + FIXED_BYTES + len(self._lead) + _INDEX_BYTES
        skipped += len(self._announced)
        last = filled - skipped
        while at <= last and len(ends) < most:
            size, its_code, correlation_id, lead, index, announced = unpack(view, at)
            end = at + LENGTH_BYTES + size
            if its_code != code or end > filled or (size != self._size and not self._resize(size)):
                break
            until = end - len(tail)
            if lead != self._lead or announced != self._announced:
                break
            if tail and view[until:end] != tail:
                break
            batch = view[at + skipped : until]
            try:
                header = check_produced(batch, version)
            except ApiError:
                break
            if header[ATTRIBUTES] & refused:
                break
            indexes.append(index)
            batches.append(batch)
            headers.append(header)
            correlation_ids.append(correlation_id)
            ends.append(end)
            at = end
        return found

    def _resize(self, size: int) -> bool:
        """Expect requests of `size` bytes; return False if their other bytes must differ, too."""
        width = len(self._announced)
        around = FIXED_BYTES + len(self._lead) + _INDEX_BYTES + width + len(self._tail)
        records = size - around
        if records <= 0 or size > self._size_max:
            return False
        announced = encode_records_size(self.version, records)
        if len(announced) != width:
            return False
        self._size = size
        self._announced = announced
        return True

    def answer(
        self, correlation_id: int, index: int, base_offset: int, append_time: int, start: int
    ) -> bytes:
        """Return the whole answer to one request; `start` is the log start offset."""
        return self._pack(
            self._answer_size, correlation_id, self._before, index, 0, base_offset, append_time,
            start, self._after,
        )  # fmt: skip

    def answers(
        self, found: ProduceMatch, begin: int, end: int, base_offset: int, start: int
    ) -> list[bytes]:
        """Return the answers to requests `begin` to `end`, whose offsets begin at `base_offset`."""
        pack, size, before, after = self._pack, self._answer_size, self._before, self._after
        index = found.indexes[begin]
        answers = []
        for correlation_id, header in zip(
            found.correlation_ids[begin:end], found.headers[begin:end], strict=True
        ):
            answers.append(
                pack(size, correlation_id, before, index, 0, base_offset, -1, start, after)
            )
            base_offset += header[LAST_OFFSET_DELTA] + 1
        return answers

    def _learn_answer(self, name: str, topic_id: bytes) -> None:
        """Make the answer's template: the bytes before the index, and those after the offsets."""
        version = self.version
        before, after = around_base_offset(version, name, topic_id, 0, 0)
        before = before[:-_INDEX_AND_ERROR_BYTES]
        self._before = before = b"\x00" + before if self.route.tagged_head else before
        around = len(before) + len(after) + LENGTH_BYTES
        self._answer_size = around + _INDEX_AND_ERROR_BYTES + _OFFSET_BYTES
        if version >= START_OFFSET_FROM:
            self._after = after = after[2 * _OFFSET_BYTES :]
            self._pack = struct.Struct(f">ii{len(before)}sihqqq{len(after)}s").pack
        else:
            self._after = after = after[_OFFSET_BYTES:]
            pack = struct.Struct(f">ii{len(before)}sihqq{len(after)}s").pack
            self._pack = lambda *fields: pack(*fields[:-2], fields[-1])
