"""Commit groups: Produce requests of one pass that wait for the high watermark together.

A pipelining client sends dozens of small batches in one read. They are appended and flushed
together, so they also wait together: one place in the connection's queue, one callback for each
partition, one deadline, and for each request only its prepared answer.
"""

import struct
from functools import partial
from typing import TYPE_CHECKING, Protocol

from headrace.model.errors import ApiError, ErrorCode
from headrace.net.pending import Body, Pending
from headrace.observe.metrics import ApiStats
from headrace.wire.kafka.hot.produce import (
    PartitionResponse,
    ProduceResponse,
    TopicResponse,
    encode_response,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.broker.partition import Partition
    from headrace.model.nouns import Offset
    from headrace.ports.deadlines import Deadlines

REQUESTS_MAX = 1000
"""Requests in one group at most."""
_TIMEOUT_SECONDS_MAX = 3600.0
_CORRELATION_ID = struct.Struct(">4xi")


class Framer(Protocol):
    """Adds the response header to a body. Implemented by `route.Route`."""

    version: int
    stats: ApiStats

    def framed(self, correlation_id: int, body: Body) -> Body:
        """Return the whole Produce answer with its response header."""


class CommitGroup(Pending):
    """Consecutive requests of one connection and one pass, as one pending answer."""

    __slots__ = (
        "_began",
        "_errors",
        "_left",
        "_now",
        "_offsets",
        "_route",
        "_timeout_ms",
        "answers",
        "latest",
        "owners",
    )

    def __init__(self, now: "Callable[[], float]") -> None:
        """Create an empty commit group. `now` returns seconds, for the requests' latency."""
        super().__init__()
        self._now = now
        self._began = now()
        self.answers: list[bytes] = []
        """Whole answers, as they are sent if the commit succeeds."""
        self.owners: list[Partition] = []
        """The partition of each of `answers`."""
        self.latest = b""
        """Body of the last request's answer, which the dispatcher frames into `answers`."""
        self._offsets: dict[Partition, Offset] = {}
        self._errors: dict[Partition, ApiError] = {}
        self._left = 0
        self._timeout_ms = 1 << 31
        self._route: Framer | None = None

    def take(
        self, partition: "Partition", commit_offset: "Offset", timeout_ms: int, body: bytes
    ) -> None:
        """Add a request that waits until `partition` is committed up to `commit_offset`."""
        offsets = self._offsets
        if commit_offset > offsets.get(partition, -1):
            offsets[partition] = commit_offset
        self.owners.append(partition)
        self.latest = body
        if timeout_ms < self._timeout_ms:
            self._timeout_ms = timeout_ms

    def take_run(
        self,
        owners: "list[Partition]",
        waits: "Mapping[Partition, Offset]",
        timeout_ms: int,
        answers: list[bytes],
    ) -> None:
        """Add several requests at once, with their partitions and whole answers.

        `waits` has the offset up to which each partition must be committed, if it is not yet.
        """
        offsets = self._offsets
        for partition, commit_offset in waits.items():
            if commit_offset > offsets.get(partition, -1):
                offsets[partition] = commit_offset
        self.owners += owners
        self.answers += answers
        if timeout_ms < self._timeout_ms:
            self._timeout_ms = timeout_ms

    @property
    def room(self) -> int:
        """Number of Produce requests that the group may still take."""
        return REQUESTS_MAX - len(self.answers)

    def fits(self, route: Framer) -> bool:
        """Tell whether a request of `route` may join: the same version, and not too many."""
        if self._route is None:
            self._route = route
        return self._route is route and len(self.answers) < REQUESTS_MAX

    def watch(self, deadlines: "Deadlines") -> None:
        """Begin to wait for the partitions, at the end of the pass; called once."""
        self._left = len(self._offsets) + 1
        for partition, offset in self._offsets.items():
            partition.when_committed(offset, partial(self.committed, partition), True)
        self._one_less()
        if not self.done:
            seconds = min(max(self._timeout_ms, 0) / 1000, _TIMEOUT_SECONDS_MAX)
            deadlines.add(self, seconds, self._time_out)

    def committed(self, partition: "Partition", error: ApiError | None) -> None:
        """Note that a partition's batches are committed, or failed with `error`."""
        if error is not None:
            self._errors[partition] = error
        self._one_less()

    def _one_less(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._answer()

    def _answer(self) -> None:
        if self._errors:
            for at, partition in enumerate(self.owners):
                error = self._errors.get(partition)
                if error is not None:
                    self.answers[at] = self._failure(at, partition, error)
        if self._route is not None and not self.done:
            # Once for all requests: their waits differ by less than the flush that they share.
            self._route.stats.latency.add(self._now() - self._began)
        self.resolve(b"".join(self.answers))

    def _time_out(self) -> None:
        """Answer REQUEST_TIMED_OUT for batches that are not committed; they stay in the log."""
        late = ApiError(ErrorCode.REQUEST_TIMED_OUT)
        for partition, offset in self._offsets.items():
            if partition.log.high_watermark < offset:
                self._errors.setdefault(partition, late)
        self._answer()

    def _failure(self, at: int, partition: "Partition", error: ApiError) -> bytes:
        route = self._route
        if route is None:
            return b""
        route.stats.failed(error.code)
        (correlation_id,) = _CORRELATION_ID.unpack_from(self.answers[at])
        topic, index = partition.topic_partition
        result = PartitionResponse(index, error.code, error_message=error.message)
        response = ProduceResponse([TopicResponse(topic, partition.topic_id, [result])])
        body = encode_response(route.version, response)
        framed = route.framed(correlation_id, body)
        return framed if isinstance(framed, bytes) else b""
