"""Quotas at one connection: counts its requests, tells the client to wait and reads it no further.

As Kafka since KIP-219: the answer goes out at once and says how long the client is to wait, and the
connection is not read for that long, whether or not the client keeps to it. A Fetch over its quota
is answered with nothing in it. Only requests that come while some quota is set get here.
"""

import struct
from collections.abc import Callable
from dataclasses import fields
from datetime import timedelta
from functools import cache, partial
from typing import TYPE_CHECKING, cast

from headrace.broker.quotas import QuotaKey
from headrace.frontends.kafka.produce.commit_group import CommitGroup
from headrace.net.pending import Body, Pending
from headrace.wire.kafka import kio_codec
from headrace.wire.kafka.api import ApiKey, is_flexible

if TYPE_CHECKING:
    from headrace.broker.quotas import ClientQuota, Mutations, Quotas
    from headrace.frontends.kafka.connection.handler import RequestContext
    from headrace.frontends.kafka.connection.route import Route
    from headrace.net.connection import Connection
    from headrace.ports.disk import Buffer

ANONYMOUS = "ANONYMOUS"
"""The user of whoever is not authenticated."""
_HEAD_BYTES = 8
"""Length and correlation id; a tagged response header has one byte more."""
_WAIT_MS_MAX = (1 << 31) - 1
_pack_ms = struct.Struct(">i").pack
_FIRST: dict[int, int] = {
    ApiKey.FETCH: 1,
    ApiKey.LIST_OFFSETS: 2,
    ApiKey.METADATA: 3,
    ApiKey.OFFSET_COMMIT: 3,
    ApiKey.HEARTBEAT: 1,
    ApiKey.SHARE_FETCH: 1,
    ApiKey.SHARE_ACKNOWLEDGE: 1,
}
"""Hot APIs whose answers begin with the throttle time, and since which version."""


class Throttle:
    """The quotas of one connection's client."""

    def __init__(self, quotas: "Quotas", connection: "Connection") -> None:
        self._quotas = quotas
        self._connection = connection
        self._client = ""
        self._version = -1
        self._quota: ClientQuota
        self._seconds = 0.0

    def begin(self, client_id: str | None, produced_bytes: int | None) -> None:
        """A request comes; of a Produce request its size. Answers to it ask `seconds_of`."""
        client = client_id or ""
        if self._version != self._quotas.version or client != self._client:
            self._quota = self._quotas.of(ANONYMOUS, client)
            self._client, self._version = client, self._quotas.version
        self._seconds = 0.0
        if produced_bytes is not None:
            self._wait(QuotaKey.PRODUCE, self._quota.produced(produced_bytes))

    def end(self, seconds_taken: float) -> int:
        """The request was handled: the milliseconds to tell in its answer; 0 mostly."""
        self._wait(QuotaKey.REQUEST, self._quota.handled(seconds_taken))
        return milliseconds(self._seconds)

    def fetch_bytes_max(self, wanted: int) -> int:
        """The most a Fetch is answered with."""
        return self._quota.fetch_bytes_max(wanted)

    def fetched(self, size: int) -> int:
        """A Fetch would be answered with `size` bytes: milliseconds to wait instead; 0 mostly."""
        seconds = self._quota.fetched(size)
        self._wait(QuotaKey.FETCH, seconds)
        return milliseconds(seconds)

    def not_sent(self, size: int) -> None:
        """Of what `fetched` counted, `size` bytes did not go after all."""
        self._quota.not_sent(size)

    def _wait(self, key: QuotaKey, seconds: float) -> None:
        if seconds <= 0:
            return
        self._quotas.throttled[key] += 1
        self._seconds = max(self._seconds, seconds)
        self._connection.mute(seconds)


def mutations(context: "RequestContext", strict_since: int) -> "Mutations":
    """What the request may change of topics; strict in versions that can tell a refusal."""
    client, strict = context.client_id or "", context.version >= strict_since
    return context.broker.quotas.mutations(ANONYMOUS, client, strict=strict)


def throttled(context: "RequestContext", spent: "Mutations") -> timedelta:
    """The throttle time to answer with; the client is not read that long."""
    seconds = spent.wait_seconds()
    if seconds > 0:
        context.broker.quotas.throttled[QuotaKey.MUTATION] += 1
        context.mute(seconds)
    return timedelta(milliseconds=milliseconds(seconds))


def milliseconds(seconds: float) -> int:
    """As the protocol tells a wait; a short one is no wait of 0."""
    return min(int(seconds * 1000) or (1 if seconds > 0 else 0), _WAIT_MS_MAX)


def told(
    route: "Route", answer: Body | Pending, group: CommitGroup | None, ms: int
) -> Body | Pending:
    """A framed answer that tells to wait `ms`; one that comes later will.

    `group`: the one that the request's answer is in, if it is in one.
    """
    patch = _patcher(route, ms)
    if patch is None:
        return answer
    if group is not None:
        if group.answers:
            group.answers[-1] = patch(group.answers[-1])
        return answer
    if isinstance(answer, Pending):
        head = answer.head
        answer.head = partial(_patched_later, head, patch)
        return answer
    return _patched(patch, answer)


def _patched_later(
    head: Callable[[Body], Body] | None, patch: Callable[[bytes], bytes], body: Body
) -> Body:
    return _patched(patch, body if head is None else head(body))


def _patched(patch: Callable[[bytes], bytes], answer: Body) -> Body:
    if isinstance(answer, list):
        # A Fetch: what is before the first records is short.
        head = b"".join(cast("list[Buffer]", answer[:2]))
        return [patch(head), *answer[2:]]
    return None if answer is None else patch(answer)


def _patcher(route: "Route", ms: int) -> Callable[[bytes], bytes] | None:
    """What writes `ms` into a framed answer of this API and version; None where it has no place."""
    key, version = route.key, route.version
    if key == ApiKey.PRODUCE:
        behind = 1 if is_flexible(key, version) else 0
        return partial(_write_from_end, behind, ms)
    if _begins_with_wait(key, version, route.hot):
        return partial(_write_at, _HEAD_BYTES + route.tagged_head, ms)
    return None


@cache
def _begins_with_wait(key: int, version: int, hot: bool) -> bool:
    if hot:
        return version >= _FIRST.get(key, 1 << 15)
    return fields(kio_codec.response_type(key, version))[0].name == "throttle_time"


def _write_from_end(behind: int, ms: int, answer: bytes) -> bytes:
    return _write_at(len(answer) - behind - 4, ms, answer)


def _write_at(at: int, ms: int, answer: bytes) -> bytes:
    there = int.from_bytes(answer[at : at + 4], "big")  # another quota's, if it is longer
    return b"".join((answer[:at], _pack_ms(max(ms, there)), answer[at + 4 :]))
