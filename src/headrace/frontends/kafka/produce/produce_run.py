"""Runs of Produce requests: a pipelining client's small batches, appended together.

Consecutive requests of a producer differ only in correlation id, partition and batch. The matching
requests of one read, each with one batch, are a run: each batch is checked, consecutive batches of
a partition are written by one call, and all are answered from one template.

Decisions are left to `produce.handle`: a run ends before the first request that does not match or
needs more than a write (a refusal, a duplicate, a new segment). Answers, log and counters are the
same either way.
"""

import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from headrace.frontends.kafka.produce.produce_pattern import (
    FIXED_BYTES,
    LENGTH_BYTES,
    ProduceMatch,
    ProducePattern,
    ProduceRoute,
)
from headrace.frontends.kafka.produce.write_permissions import may_run
from headrace.model.errors import ApiError, Malformed
from headrace.net.session import Run
from headrace.observe.metrics import ApiStats
from headrace.record.batch import stamp
from headrace.record.batch_layout import RECORD_COUNT
from headrace.wire.kafka.api import ApiKey

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.broker.partition import Partition
    from headrace.frontends.kafka.connection.request_pass import RequestPass
    from headrace.model.nouns import Offset
    from headrace.security.identity import Identity

FRAMES_MAX = 256
"""Requests in one run at most."""
FRAME_BYTES_MAX = 64 << 10
"""Largest request in bytes that is part of a run."""
_LATENCY_SAMPLE = 16
"""Requests of which one is timed, as for other hot APIs."""
_PATIENCE_FIRST, _PATIENCE_MAX = 4, 64
_ACKS_NONE, _ACKS_ALL = 0, -1
_NO_EPOCH = -1
_unpack_size = struct.Struct(">i").unpack_from
_unpack_code = struct.Struct(">4xi").unpack_from


class _Done(NamedTuple):
    """The answers of a run of Produce requests so far, and the commits they wait for."""

    answers: "list[bytes]"
    owners: "list[Partition]"
    """The partition of each answer."""
    waits: "dict[Partition, Offset]"
    """Offsets up to which partitions must be committed before the answers are sent."""

    def wait(self, partition: "Partition", commit_offset: "Offset") -> None:
        """Have the run's answers wait until the partition is committed up to `commit_offset`."""
        if commit_offset > self.waits.get(partition, -1):
            self.waits[partition] = commit_offset


def _timed(stats: ApiStats, requests: int, seconds: float) -> None:
    """Add the latency of requests that came and were handled together."""
    for _ in range(requests):
        stats.latency.add(seconds)


class ProduceRuns:
    """The runs of one connection's Produce requests."""

    __slots__ = (
        "_authorisation", "_broker", "_identity", "_let_pass", "_pass", "_patience", "_pattern",
        "_routes", "_size_max",
    )  # fmt: skip

    def __init__(
        self,
        broker: "Broker",
        present: "RequestPass",
        routes: Mapping[int, ProduceRoute],
        identity: "Identity",
    ) -> None:
        """Create the runs of a connection. `identity` is the connection's client."""
        self._broker = broker
        self._pass = present
        self._routes = routes
        self._size_max = min(broker.config.socket_request_max_bytes, FRAME_BYTES_MAX)
        self._identity = identity
        self._pattern: ProducePattern | None = None
        # Version of the permissions by which the pattern's requests were allowed.
        self._authorisation = -1
        # Requests that are not matched after an attempt that failed; doubled after each such
        # attempt.
        self._let_pass = 0
        self._patience = 1

    def take(self, view: memoryview, at: int, filled: int) -> Run | None:
        """Append several requests from `at` on; return None if the next must be decoded."""
        if self._let_pass:
            self._let_pass -= 1
            return None
        (size,) = _unpack_size(view, at)
        second = at + LENGTH_BYTES + size
        if second + LENGTH_BYTES + _unpack_size(view, second)[0] > filled:
            return None
        began = self._pass.now()
        pattern = self._pattern
        if self._authorisation != self._broker.authorizer.version:
            pattern = None
        found = None if pattern is None else self._find(pattern, view, at, filled)
        if found is None or not found.ends:
            pattern = self._pattern = self._learn(view, at, size)
            found = None if pattern is None else self._find(pattern, view, at, filled)
        if pattern is None or found is None or len(found.ends) < 2:
            self._pass_by(0)
            self._let_pass -= 1  # the present request
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
        """Skip matching for the next requests: one at first, later as many as were `checked`.

        So a stream of requests that do not match is not checked again and again.
        """
        self._let_pass = max(self._patience, checked if self._patience > _PATIENCE_FIRST else 0)
        self._patience = min(2 * self._patience, _PATIENCE_MAX)

    def _find(
        self, pattern: ProducePattern, view: memoryview, at: int, filled: int
    ) -> ProduceMatch:
        most, group = FRAMES_MAX, self._pass.group
        if group is not None and pattern.acks == _ACKS_ALL and group.fits(pattern.route):
            most = min(most, group.room)
        return pattern.find(view, at, filled, most)

    def _learn(self, view: memoryview, at: int, size: int) -> ProducePattern | None:
        (code,) = _unpack_code(view, at)
        route = self._routes.get(code)
        if route is None or code >> 16 != ApiKey.PRODUCE or size > self._size_max:
            return None
        begin = at + LENGTH_BYTES
        try:
            pattern = ProducePattern(code, route, view[begin : begin + size], self._size_max)
        except Malformed:
            return None
        self._authorisation = self._broker.authorizer.version
        named = *pattern.named, pattern.transactional_id
        return pattern if may_run(self._broker, self._identity, *named) else None

    def _append(
        self, pattern: ProducePattern, found: ProduceMatch, at: int, began: float
    ) -> Run | None:
        present = self._pass
        present.begin()
        done = _Done([], [], {})
        taken = self._append_all(pattern, found, done)
        if taken == 0:
            return None
        end = found.ends[taken - 1]
        stats = pattern.route.stats
        before = stats.requests
        stats.requests = before + taken
        stats.bytes_in += end - at - taken * LENGTH_BYTES
        timed = stats.requests // _LATENCY_SAMPLE - before // _LATENCY_SAMPLE
        if pattern.acks == _ACKS_NONE:
            present.end_group()
            present.promise()
            _timed(stats, timed, self._pass.now() - began)
            return Run(end, taken, None)
        answers = done.answers
        body_bytes = len(answers[0]) - FIXED_BYTES - pattern.route.tagged_head
        stats.bytes_out += taken * body_bytes
        if done.waits:
            group = present.group_of(pattern.route)
            first = not group.answers
            group.take_run(done.owners, done.waits, pattern.timeout_ms, answers)
            return Run(end, taken, group if first else None)
        present.end_group()
        present.promise()
        _timed(stats, timed, self._pass.now() - began)
        return Run(end, taken, b"".join(answers))

    def _append_all(self, pattern: ProducePattern, found: ProduceMatch, done: _Done) -> int:
        """Append the found batches, partition by partition; return the number of requests."""
        broker = self._broker
        now_ms = broker.clock.wall_ms()
        indexes = found.indexes
        total, taken = len(indexes), 0
        while taken < total:
            index, begin = indexes[taken], taken
            end = begin + 1
            while end < total and indexes[end] == index:
                end += 1
            try:
                partition = pattern.partition(broker, index)
            except ApiError:
                break
            if end - begin == 1:
                taken += self._append_one(pattern, found, begin, partition, now_ms, done)
            else:
                taken += self._append_row(pattern, found, begin, end, partition, now_ms, done)
            if taken < end:
                break
        return taken

    def _append_one(
        self, pattern: ProducePattern, found: ProduceMatch, at: int, partition: "Partition",
        now_ms: int, done: _Done,
    ) -> int:  # fmt: skip
        """Append one request's batch; return 1, or 0 if `produce.handle` must handle it."""
        if partition.inspected:
            return 0
        batch, header = found.batches[at], found.headers[at]
        try:
            base_offset, _, append_time, commit_offset, _ = partition.append(
                batch, header, now_ms=now_ms, required_acks=pattern.acks
            )
        except ApiError:
            stamp(batch, 0, _NO_EPOCH)  # restored for `produce.handle`, which finds the error
            return 0
        self._broker.metrics.records_in += header[RECORD_COUNT]
        if pattern.acks != _ACKS_NONE:
            start = partition.log.start_offset
            done.owners.append(partition)
            done.answers.append(
                pattern.answer(
                    found.correlation_ids[at], found.indexes[at], base_offset, append_time, start
                )
            )
            if pattern.acks == _ACKS_ALL and commit_offset > partition.log.high_watermark:
                done.wait(partition, commit_offset)
        return 1

    def _append_row(
        self, pattern: ProducePattern, found: ProduceMatch, begin: int, end: int,
        partition: "Partition", now_ms: int, done: _Done,
    ) -> int:  # fmt: skip
        """Append the batches `begin` to `end` of one partition; return how many were appended."""
        base_offset = partition.log.end_offset
        taken = partition.append_run(
            found.batches[begin:end],
            found.headers[begin:end],
            now_ms=now_ms,
            required_acks=pattern.acks,
        )
        if taken == 0:
            return 0
        end_offset = partition.log.end_offset
        self._broker.metrics.records_in += end_offset - base_offset
        if pattern.acks != _ACKS_NONE:
            start = partition.log.start_offset
            done.owners.extend([partition] * taken)
            done.answers.extend(pattern.answers(found, begin, begin + taken, base_offset, start))
            if pattern.acks == _ACKS_ALL and end_offset > partition.log.high_watermark:
                done.wait(partition, end_offset)
        return taken
