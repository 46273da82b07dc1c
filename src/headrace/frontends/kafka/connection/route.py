"""What the dispatcher looks requests up in: one entry for each version of each API.

The code behind an entry is imported when its first request comes. A hot API's at once, on the loop:
its frame is there only during the call, and what it stands on has mostly been loaded by then. A
cold one's by a thread (`cold_calls`).
"""

import struct
from typing import TYPE_CHECKING, Any

from headrace.frontends.kafka.connection.api import Api
from headrace.frontends.kafka.connection.handler import Handler, RequestContext, load_handler
from headrace.net.pending import Body
from headrace.observe.metrics import ApiStats
from headrace.wire.kafka import kio_codec
from headrace.wire.kafka.api import ApiKey, is_flexible, response_header_version

if TYPE_CHECKING:
    from headrace.ports.file_ranges import Part

pack_plain = struct.Struct(">ii").pack
"""Length and correlation id: the head of an answer."""
pack_tagged = struct.Struct(">iix").pack
"""As `pack_plain`, with no tagged fields behind (response header v1)."""


class Route:
    """One version of one API: all that is known before a request comes, and then its code."""

    __slots__ = (
        "_api",
        "changes",
        "flexible",
        "handle",
        "hot",
        "in_turn",
        "is_produce",
        "key",
        "loaded",
        "stats",
        "tagged_head",
        "version",
    )

    def __init__(self, api: Api, version: int, stats: ApiStats) -> None:
        self.key = api.key
        self.version = version
        self.hot = api.hot
        self.in_turn = api.in_turn or not api.hot
        self.changes = False
        """Whether the audit log tells what its requests change; known when it is loaded."""
        self.handle: Handler = self._load_and_handle
        """What answers; the first call loads it."""
        self.loaded = False
        """Whether a request can be answered without an import."""
        self._api = api
        self.is_produce = api.key == ApiKey.PRODUCE
        self.flexible = is_flexible(api.key, version)
        self.tagged_head = response_header_version(api.key, version) == 1
        self.stats = stats

    def load(self) -> None:
        """Import what answers, a cold API's codecs included. Any thread, any number of times."""
        handle = load_handler(self._api)
        if not self.hot:
            kio_codec.warm(self.key, self.version)
            # Not at the start: the first cold request brings the table.
            from headrace.frontends.kafka.connection.changes import CHANGES

            self.changes = self.key in CHANGES
        self.handle, self.loaded = handle, True

    def _load_and_handle(self, context: RequestContext, body: Any) -> Any:  # noqa: ANN401
        self.load()
        return self.handle(context, body)

    def framed(self, correlation_id: int, body: Body) -> Body:
        """Return the answer with length and response header before it."""
        if body is None:
            return None
        size = len(body) if isinstance(body, bytes) else sum(map(len, body))
        self.stats.bytes_out += size
        if self.tagged_head:
            head = pack_tagged(size + 5, correlation_id)
        else:
            head = pack_plain(size + 4, correlation_id)
        if isinstance(body, bytes):
            return head + body
        whole: list[Part] = [head, *body]
        return whole
