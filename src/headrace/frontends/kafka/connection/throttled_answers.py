"""Throttle times written into answers that are framed already."""

import struct
from collections.abc import Callable
from dataclasses import fields
from functools import cache, partial
from typing import TYPE_CHECKING, cast

from headrace.frontends.kafka.produce.commit_group import CommitGroup
from headrace.net.pending import Body, Pending
from headrace.wire.kafka.api import ApiKey, is_flexible

if TYPE_CHECKING:
    from headrace.frontends.kafka.connection.route import Route
    from headrace.ports.disk import Buffer

_HEAD_BYTES = 8
"""Bytes of length and correlation id; a tagged response header has one more."""
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
"""The first version of hot APIs whose answers begin with the throttle time."""


def told(
    route: "Route", answer: Body | Pending, group: CommitGroup | None, ms: int
) -> Body | Pending:
    """Return a framed answer with a throttle time of `ms`; a pending answer gets it later.

    `group` is the commit group that has the request's answer, or None.
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
        # A Fetch: the parts before the first records are short.
        head = b"".join(cast("list[Buffer]", answer[:2]))
        return [patch(head), *answer[2:]]
    return None if answer is None else patch(answer)


def _patcher(route: "Route", ms: int) -> Callable[[bytes], bytes] | None:
    """Return a function that writes `ms` into an answer, or None if it has no such field."""
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
    from headrace.wire.kafka import kio_codec  # no answer of a cold API was throttled before

    return fields(kio_codec.response_type(key, version))[0].name == "throttle_time"


def _write_from_end(behind: int, ms: int, answer: bytes) -> bytes:
    return _write_at(len(answer) - behind - 4, ms, answer)


def _write_at(at: int, ms: int, answer: bytes) -> bytes:
    there = int.from_bytes(answer[at : at + 4], "big")  # another quota's, if it is longer
    return b"".join((answer[:at], _pack_ms(max(ms, there)), answer[at + 4 :]))
