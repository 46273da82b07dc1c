"""Routes: one entry of the dispatcher's table for each version of each API.

The handler's code is imported with its first request: a hot API's on the event loop, as the frame
is valid only during the call and most modules are loaded already; a cold API's on a thread
(`cold_calls`).
"""

import struct
from typing import TYPE_CHECKING, Any

from headrace.frontends.kafka.connection.api import Api
from headrace.frontends.kafka.connection.handler import Handler, RequestContext, load_handler
from headrace.net.pending import Body
from headrace.observe.metrics import ApiStats
from headrace.wire.kafka.api import ApiKey, is_flexible, response_header_version

if TYPE_CHECKING:
    from headrace.ports.file_ranges import Part

pack_plain = struct.Struct(">ii").pack
"""Packs length and correlation id: response header v0."""
pack_tagged = struct.Struct(">iix").pack
"""Packs length, correlation id and no tagged fields: response header v1."""


class Route:
    """A version of an API: its constant properties, and its handler once loaded."""

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
        """Whether its requests are audited; known once the route is loaded."""
        self.handle: Handler = self._load_and_handle
        """The handler; its first call loads it."""
        self.loaded = False
        """Whether a request can be answered without an import."""
        self._api = api
        self.is_produce = api.key == ApiKey.PRODUCE
        self.flexible = is_flexible(api.key, version)
        self.tagged_head = response_header_version(api.key, version) == 1
        self.stats = stats

    def load(self) -> None:
        """Import the handler, and a cold API's codecs; any thread, any number of times."""
        handle = load_handler(self._api)
        if not self.hot:
            # Imported with the first cold request, not at the start.
            from headrace.frontends.kafka.connection.changes import CHANGES
            from headrace.wire.kafka import kio_codec

            kio_codec.warm(self.key, self.version)
            self.changes = self.key in CHANGES
        self.handle, self.loaded = handle, True

    def _load_and_handle(self, context: RequestContext, body: Any) -> Any:  # noqa: ANN401
        self.load()
        return self.handle(context, body)

    def framed(self, correlation_id: int, body: Body) -> Body:
        """Return the answer with length and response header in front; count its bytes."""
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
