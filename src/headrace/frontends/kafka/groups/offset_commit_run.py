"""Runs of one connection's OffsetCommits: matched by a pattern, committed together.

The matching requests of one read are a run, with one check of the group, one entry of its journal
and one answer. A single matching request is not decoded. A request that does not match is handled
by `offset_commit.handle`. Answers, log and counters are the same either way.
"""

import struct
from functools import partial
from typing import TYPE_CHECKING

from headrace.net.pending import Pending
from headrace.net.session import Run
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.frame import parse_request

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.broker.broker import Broker
    from headrace.coordination.coordinators import Coordinators
    from headrace.frontends.kafka.connection.hot_state import Shared
    from headrace.frontends.kafka.groups.offset_commit_pattern import (
        CommitMatch,
        CommitPattern,
        Frames,
    )
    from headrace.frontends.kafka.produce.produce_pattern import ProduceRoute
    from headrace.model.errors import ErrorCode

FRAMES_MAX = 256
"""Requests in one run at most."""
RUN_BYTES_MAX = 128 << 10
"""Bytes of a run's records at most, so that they fit into a batch with others."""
LENGTH_BYTES = 4
_API_CODE = ApiKey.OFFSET_COMMIT << 16
_PATIENCE_MAX = 64
_LATENCY_SAMPLE = 16
"""Requests of which one is timed, as for other hot APIs."""
_unpack_head = struct.Struct(">ii").unpack_from


class OffsetCommitRuns:
    """The pattern and the runs of one connection's OffsetCommits."""

    __slots__ = (
        "_broker", "_coordinators", "_frames", "_let_pass", "_patience", "_pattern", "_routes",
        "_shared",
    )  # fmt: skip

    def __init__(
        self,
        broker: "Broker",
        coordinators: "Coordinators",
        shared: "Shared",
        routes: "Mapping[int, ProduceRoute]",
    ) -> None:
        self._broker = broker
        self._coordinators = coordinators
        self._shared = shared
        self._routes = routes
        self._pattern: CommitPattern | None = None
        self._frames: Frames | None = None
        # Requests that are not learned after a pattern that none matched; doubled after each such
        # pattern.
        self._let_pass = 0
        self._patience = 1

    def curious(self) -> bool:
        """Tell whether to learn the next request: less often if patterns were not matched."""
        if self._let_pass:
            self._let_pass -= 1
            return False
        self._let_pass = self._patience
        self._patience = min(2 * self._patience, _PATIENCE_MAX)
        return True

    def learn(self, pattern: "CommitPattern | None") -> None:
        """Match later requests against a pattern; None: match none."""
        self._pattern, self._frames = pattern, None

    def _holds(self, pattern: "CommitPattern") -> bool:
        broker = self._broker
        limits = self._coordinators.groups.limits
        return pattern.holds(broker.image, limits, broker.authorizer.version)

    def again(self, version: int, body: memoryview) -> Pending | None:
        """Commit a request that matches the pattern; return None if it must be decoded."""
        pattern = self._pattern
        if pattern is None or pattern.version != version or not self._holds(pattern):
            return None
        found = pattern.match(body)
        if found is None:
            return None
        self._let_pass, self._patience = 0, 1
        pending = Pending()
        answer = partial(_answer, pending, pattern)
        self._coordinators.groups.commit_repeated(pattern.repeated, *found, answer)
        return pending

    def take(self, view: memoryview, at: int, filled: int) -> Run | None:
        """Commit several requests from `at` on; return None if the next must be decoded."""
        pattern = self._pattern
        if pattern is None or not self._holds(pattern):
            return None
        size, code = _unpack_head(view, at)
        frame_bytes = LENGTH_BYTES + size
        if at + 2 * frame_bytes > filled or code != (_API_CODE | pattern.version):
            return None
        began = self._shared.now()
        frames = self._frames
        if frames is None or frames.size != frame_bytes:
            frames = self._frames = self._look(pattern, view[at : at + frame_bytes])
            if frames is None:
                return None
        most = RUN_BYTES_MAX // pattern.repeated.record_bytes
        found = frames.find(view, at, min((filled - at) // frame_bytes, FRAMES_MAX, most))
        count = len(found.correlation_ids)
        if count < 2:
            self._frames = None  # the request's header may have changed
            return None
        self._let_pass, self._patience = 0, 1
        answer = self._commit(pattern, found, self._routes[code], count * size, began)
        return Run(at + count * frame_bytes, count, answer)

    @staticmethod
    def _look(pattern: "CommitPattern", frame: memoryview) -> "Frames | None":
        """Return the matcher of frames with the header of `frame`, or None if it does not match."""
        body = frame[LENGTH_BYTES + parse_request(frame[LENGTH_BYTES:]).body :]
        return None if pattern.match(body) is None else pattern.frames(frame)

    def _commit(
        self,
        pattern: "CommitPattern",
        found: "CommitMatch",
        route: "ProduceRoute",
        bytes_in: int,
        began: float,
    ) -> Pending:
        ids, offsets, leader_epochs = found
        self._shared.request_pass.end_group()  # answers between groups are sent in order
        stats = route.stats
        before = stats.requests
        stats.requests = before + len(ids)
        stats.bytes_in += bytes_in
        timed = stats.requests // _LATENCY_SAMPLE - before // _LATENCY_SAMPLE
        pending = Pending()
        answer = partial(_answer_all, pending, pattern, route, ids, timed, began, self._shared.now)
        self._coordinators.groups.commit_repeated(pattern.repeated, offsets, leader_epochs, answer)
        return pending


def _answer(pending: Pending, pattern: "CommitPattern", error: "ErrorCode") -> None:
    if not pending.done:
        pending.resolve(pattern.answer(error))


def _answer_all(
    pending: Pending,
    pattern: "CommitPattern",
    route: "ProduceRoute",
    correlation_ids: list[int],
    timed: int,
    began: float,
    now: "Callable[[], float]",
    error: "ErrorCode",
) -> None:
    if pending.done:
        return
    body = pattern.answer(error)
    stats = route.stats
    stats.bytes_out += len(body) * len(correlation_ids)
    seconds = now() - began
    for _ in range(timed):
        stats.latency.add(seconds)
    if route.tagged_head:
        body = b"\x00" + body
    pack, size = struct.Struct(f">ii{len(body)}s").pack, len(body) + LENGTH_BYTES
    pending.resolve(
        b"".join([pack(size, correlation_id, body) for correlation_id in correlation_ids])
    )
