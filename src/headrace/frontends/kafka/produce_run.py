"""Runs of Produce requests: a pipelining client's small batches, appended and answered together.

Consecutive requests of a producer differ in correlation id and batch only. Where several lie in one
read, those that are byte for byte like the first one but for that, one batch for one partition,
are one run: each batch is checked, all are written by one call and answered from one template.

Nothing is decided here that `produce.handle` decides: a run ends before the first request that is
not like the others or needs more than being written (a refusal, a duplicate, a new segment), and
that one goes the ordinary way. Answers, log and counters are the same either way.
"""

import struct
from collections.abc import Mapping
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple, Protocol

from headrace.frontends.kafka.commit_group import Framer
from headrace.model.errors import ApiError, Malformed
from headrace.net.connection import Run
from headrace.observe.metrics import ApiStats
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.batch import BatchHeader, check_produced
from headrace.wire.kafka.frame import parse_request
from headrace.wire.kafka.hot.produce import (
    TOPIC_IDS_FROM,
    around_base_offset,
    decode_usual,
    encode_records_size,
    tail_bytes,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.broker.partition import Partition
    from headrace.frontends.kafka.shared import Shared

FRAMES_MAX = 256
"""Requests in one run."""
FRAME_BYTES_MAX = 64 << 10
"""Larger requests are not worth it."""
_LATENCY_SAMPLE = 16
"""One request in sixteen is timed, as everywhere."""
_PATIENCE_FIRST, _PATIENCE_MAX = 4, 64
_LENGTH_BYTES = 4
_FIXED_BYTES = 8
"""API key, version and correlation id."""
_ACKS_NONE, _ACKS_ALL = 0, -1
_ACKS = (0, 1, -1)
_unpack_size = struct.Struct(">i").unpack_from
_unpack_code = struct.Struct(">4xi").unpack_from


class Route(Framer, Protocol):
    """One version of Produce."""

    tagged_head: bool


class _Found(NamedTuple):
    """Requests that are alike, their batches sound."""

    batches: list[memoryview]
    headers: list[BatchHeader]
    correlation_ids: list[int]
    ends: list[int]


class _Pattern:
    """What all requests of a run have in common."""

    __slots__ = (
        "_after", "_before", "_code", "_lead", "_named", "_pack", "_size", "_size_max",
        "_start_offset", "_tail", "_unpack", "_width", "acks", "route", "timeout_ms", "version",
    )  # fmt: skip

    def __init__(self, code: int, route: Route, frame: memoryview, size_max: int) -> None:
        """The pattern of the request `frame`, without its length. Malformed: it has none."""
        self.version = version = route.version
        self.route = route
        request = decode_usual(version, frame[parse_request(frame).body :])
        if request is None or request.acks not in _ACKS:
            raise Malformed("not the usual request")
        name, topic_id, ((index, records),) = request.topics[0]
        self._named = name, topic_id, index
        self.acks, self.timeout_ms = request.acks, request.timeout_ms
        self._tail = bytes(tail_bytes(version))
        size = len(records or b"")
        self._code, self._size, self._size_max = code, len(frame), size_max
        self._lead = bytes(frame[_FIXED_BYTES : len(frame) - len(self._tail) - size])
        self._width = len(encode_records_size(version, size))
        self._unpack = struct.Struct(f">iii{len(self._lead)}s").unpack_from
        self._start_offset = -1
        self._before = self._after = b""
        self._pack = struct.Struct(">ii0sq0s").pack

    def partition(self, broker: "Broker") -> "Partition":
        """Where the batches belong, as things stand now. ApiError."""
        name, topic_id, index = self._named
        if self.version >= TOPIC_IDS_FROM:
            return broker.partition_by_id(topic_id, index)
        return broker.partition(name, index)

    def find(self, view: memoryview, at: int, filled: int, most: int) -> _Found:
        """The requests from `at` on that are alike, up to the first that is not."""
        batches: list[memoryview] = []
        headers: list[BatchHeader] = []
        correlation_ids: list[int] = []
        ends: list[int] = []
        unpack, code, version, tail = self._unpack, self._code, self.version, self._tail
        skipped = _LENGTH_BYTES + _FIXED_BYTES + len(self._lead)
        last = filled - skipped
        while at <= last and len(ends) < most:
            size, its_code, correlation_id, lead = unpack(view, at)
            end = at + _LENGTH_BYTES + size
            if its_code != code or end > filled or (size != self._size and not self._resize(size)):
                break
            until = end - len(tail)
            if lead != self._lead or (tail and view[until:end] != tail):
                break
            batch = view[at + skipped : until]
            try:
                header = check_produced(batch, version)
            except ApiError:
                break
            batches.append(batch)
            headers.append(header)
            correlation_ids.append(correlation_id)
            ends.append(end)
            at = end
        return _Found(batches, headers, correlation_ids, ends)

    def _resize(self, size: int) -> bool:
        """Expect requests of `size` bytes from now on. False: those differ in more than that."""
        records = size - _FIXED_BYTES - len(self._lead) - len(self._tail)
        if records <= 0 or size > self._size_max:
            return False
        announced = encode_records_size(self.version, records)
        if len(announced) != self._width:
            return False
        self._size = size
        self._lead = self._lead[: -self._width] + announced
        return True

    def answers(
        self, found: _Found, taken: int, base_offset: int, log_start_offset: int
    ) -> list[bytes]:
        """The whole answers to the first `taken`, which lie at `base_offset` and behind."""
        if log_start_offset != self._start_offset:
            name, topic_id, index = self._named
            before, self._after = around_base_offset(
                self.version, name, topic_id, index, log_start_offset
            )
            self._before = b"\x00" + before if self.route.tagged_head else before
            self._pack = struct.Struct(f">ii{len(self._before)}sq{len(self._after)}s").pack
            self._start_offset = log_start_offset
        pack, before, after = self._pack, self._before, self._after
        size = _FIXED_BYTES + len(before) + _LENGTH_BYTES + len(after)
        answers = []
        for correlation_id, header in zip(
            found.correlation_ids[:taken], found.headers[:taken], strict=True
        ):
            answers.append(pack(size, correlation_id, before, base_offset, after))
            base_offset += header[6] + 1
        return answers


def _timed(stats: ApiStats, requests: int, began: float) -> None:
    """Count how long each took: they came and were done together."""
    seconds = perf_counter() - began
    for _ in range(requests):
        stats.latency.add(seconds)


class ProduceRuns:
    """The runs of one connection."""

    __slots__ = ("_broker", "_let_pass", "_patience", "_pattern", "_routes", "_shared", "_size_max")

    def __init__(self, broker: "Broker", shared: "Shared", routes: Mapping[int, Route]) -> None:
        self._broker = broker
        self._shared = shared
        self._routes = routes
        self._size_max = min(broker.config.socket_request_max_bytes, FRAME_BYTES_MAX)
        self._pattern: _Pattern | None = None
        # How many requests go the ordinary way unasked after a try that came to nothing; twice as
        # many after each such try.
        self._let_pass = 0
        self._patience = 1

    def take(self, view: memoryview, at: int, filled: int) -> Run | None:
        """Answer several requests from `at` on at once. None: the next goes the ordinary way."""
        if self._let_pass:
            self._let_pass -= 1
            return None
        (size,) = _unpack_size(view, at)
        second = at + _LENGTH_BYTES + size
        if second + _LENGTH_BYTES + _unpack_size(view, second)[0] > filled:
            return None
        began = perf_counter()
        pattern = self._pattern
        found = None if pattern is None else self._find(pattern, view, at, filled)
        if found is None or not found.ends:
            pattern = self._pattern = self._learn(view, at, size)
            found = None if pattern is None else self._find(pattern, view, at, filled)
        if pattern is None or found is None or len(found.ends) < 2:
            self._pass_by(0)
            self._let_pass -= 1  # this one
            return None
        run = self._append(pattern, found, at, began)
        if run is None:
            self._pass_by(len(found.ends))
            self._let_pass -= 1
        elif run.frames < len(found.ends):
            self._pass_by(len(found.ends) - run.frames)
        else:
            self._patience = 1
        return run

    def _pass_by(self, checked: int) -> None:
        """Let requests go the ordinary way: one at first, later all that were `checked` in vain.

        So that no stream of requests has each of them checked again and again.
        """
        self._let_pass = max(self._patience, checked if self._patience > _PATIENCE_FIRST else 0)
        self._patience = min(2 * self._patience, _PATIENCE_MAX)

    def _find(self, pattern: _Pattern, view: memoryview, at: int, filled: int) -> _Found:
        most, group = FRAMES_MAX, self._shared.group
        if group is not None and pattern.acks == _ACKS_ALL and group.fits(pattern.route):
            most = min(most, group.room)
        return pattern.find(view, at, filled, most)

    def _learn(self, view: memoryview, at: int, size: int) -> _Pattern | None:
        (code,) = _unpack_code(view, at)
        route = self._routes.get(code)
        if route is None or code >> 16 != ApiKey.PRODUCE or size > self._size_max:
            return None
        begin = at + _LENGTH_BYTES
        try:
            return _Pattern(code, route, view[begin : begin + size], self._size_max)
        except Malformed:
            return None

    def _append(self, pattern: _Pattern, found: _Found, at: int, began: float) -> Run | None:
        broker, shared = self._broker, self._shared
        try:
            partition = pattern.partition(broker)
        except ApiError:
            return None
        if shared.gather is not None:
            shared.gather()
        base_offset = partition.log.end_offset
        acks = pattern.acks
        taken = partition.append_run(
            found.batches, found.headers, now_ms=broker.clock.wall_ms(), required_acks=acks
        )
        if taken == 0:
            return None
        end_offset = partition.log.end_offset
        broker.metrics.records_in += end_offset - base_offset
        end = found.ends[taken - 1]
        stats = pattern.route.stats
        before = stats.requests
        stats.requests = before + taken
        stats.bytes_in += end - at - taken * _LENGTH_BYTES
        timed = stats.requests // _LATENCY_SAMPLE - before // _LATENCY_SAMPLE
        if acks == _ACKS_NONE:
            shared.group = None
            shared.promised = True
            _timed(stats, timed, began)
            return Run(end, taken, None)
        answers = pattern.answers(found, taken, base_offset, partition.log.start_offset)
        body_bytes = len(answers[0]) - _FIXED_BYTES - pattern.route.tagged_head
        stats.bytes_out += taken * body_bytes
        if acks == _ACKS_ALL and end_offset > partition.high_watermark:
            group = shared.group
            if group is None or not group.fits(pattern.route):
                group = shared.open_group()
                group.fits(pattern.route)
            first = not group.answers
            group.take_run(partition, end_offset, pattern.timeout_ms, answers)
            return Run(end, taken, group if first else None)
        shared.group = None
        shared.promised = True
        _timed(stats, timed, began)
        return Run(end, taken, b"".join(answers))
