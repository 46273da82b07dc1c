"""Bodies of HTTP requests: received when their handler asks for them, within bounds.

    waiting --read--> receiving --> done            the handler has the body
       |                  |  \
       |                  |   `--> refused          413, 408, 400, 503: the connection ends
       `------drop--------'                         the handler answered without it

Until a handler reads, the client gets no `100 Continue` and the bytes stay in the socket: what a
handler refuses by the head alone is never stored. h11 finds the end of the body.

Bounds. A body has the bytes that its route allows, and all bodies of an endpoint together
`BODIES_BYTES_MAX`: received bytes count, not those that a head promises. It is complete
`BODY_SECONDS_MAX` after the handler asked. Chunks of few bytes cost more than they carry: their
framing has `FRAMING_BYTES_MAX` and a share of the body, and a pass handles `EVENTS_MAX` of them.
"""

import asyncio
from typing import TYPE_CHECKING, Protocol

import h11

from headrace.frontends.http.heads import CHUNKED, END
from headrace.frontends.http.router import BodyRefused

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.ports.clock import Timer

BODIES_BYTES_MAX = 64_000_000
"""Most bytes of the bodies of all requests of an endpoint together."""
BODY_SECONDS_MAX = 60.0
"""Seconds from the handler's request for a body until it is complete."""
FRAMING_BYTES_MAX = 64 << 10
FRAMING_SHARE = 8
"""Most bytes of chunked framing: `FRAMING_BYTES_MAX` and one for each `FRAMING_SHARE` of body."""
EVENTS_MAX = 200
"""Most chunks parsed before other connections have their turn, a few milliseconds."""
_SLICE_BYTES = 4096
"""Bytes of chunks parsed between two looks at `EVENTS_MAX`."""


class Budget(Protocol):
    """The shared limit on bodies. Implemented by `endpoint.Endpoint`."""

    body_bytes: int
    """Bytes of all bodies in memory."""
    call_later: "Callable[[float, Callable[[], None]], Timer]"


class Source(Protocol):
    """The connection that a body comes from. Implemented by `session.HttpSession`."""

    def receive_body(self) -> None:
        """Pass the bytes of the body to `RequestBody.feed` from now on."""

    def hold_body(self) -> None:
        """Stop passing bytes."""


class RequestBody:
    """The body of one request. Used on the event loop. Implements `router.Body`."""

    def __init__(
        self, http: h11.Connection, length: int, bytes_max: int, source: Source, budget: Budget
    ) -> None:
        """Take the body of the request whose head `http` has just parsed.

        `length` is `heads.body_length`, not 0; `bytes_max` is the limit of the request's route.
        """
        self._http = http
        self._length = length
        self._bytes_max = bytes_max
        self._source = source
        self._budget = budget
        self._data = bytearray()
        self._received = self._payload = 0
        self._last_bytes = b""
        self._waiting: asyncio.Future[None] | None = None
        self._refused: BodyRefused | None = None
        self._drops = False
        self.done = False
        """Whether the body is received, or dropped, to its end."""
        self.timeout: asyncio.Timeout | None = None
        """The handler's time, which does not pass while it waits for the client."""

    @property
    def receiving(self) -> bool:
        """Whether the bytes of the connection belong to this body now."""
        return self._waiting is not None and not self._waiting.done()

    # Calls of the handler and of its connection's task

    async def read(self) -> bytes | bytearray:
        """Return the whole body. Raises BodyRefused."""
        if self._refused is not None:
            raise self._refused
        if not self.done:
            if self._length > self._bytes_max:
                self._refused = self._too_long()
                raise self._refused
            await self._receive(BODY_SECONDS_MAX)
        return self._data

    async def drop(self, bytes_max: int, seconds: float) -> bool:
        """Receive a body that the handler did not read, and drop it; return whether it is done.

        It is not if it is longer than `bytes_max`, if it was refused before, if it takes longer
        than `seconds`, and if the client waits for `100 Continue`.
        """
        unasked = self._http.they_are_waiting_for_100_continue
        if self.done or self._refused is not None or unasked or self._length > bytes_max:
            return self.done
        self._drops, self._bytes_max = True, bytes_max
        try:
            await self._receive(seconds)
        except BodyRefused:
            return False
        return True

    def release(self) -> None:
        """Return the memory of the body to the budget: its request is answered."""
        self._budget.body_bytes -= len(self._data)
        self._data = bytearray()  # a handler may still hold the other one

    def refuse(self, status: int, reason: str) -> None:
        """End a body that is being received; `read` raises BodyRefused."""
        self._end(BodyRefused(status, reason))

    async def _receive(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._waiting = loop.create_future()
        timer = self._budget.call_later(seconds, self._late)
        timeout, left = self.timeout, 0.0
        if timeout is not None:
            left = (timeout.when() or loop.time()) - loop.time()
            timeout.reschedule(None)
        self._source.receive_body()
        try:
            await self._waiting
        finally:
            timer.cancel()
            self._waiting = None
            if not self.done and self._refused is None:  # the handler waits no longer
                self._source.hold_body()
                self._refused = BodyRefused(503, "the body was not awaited")
            if timeout is not None:
                timeout.reschedule(loop.time() + left)

    def _late(self) -> None:
        self.refuse(408, "the body was not complete in time")

    # Calls of the connection's receiving half

    def feed(self, view: memoryview) -> int:
        """Take received bytes; return how many, fewer where the body ends or a turn is over."""
        at = events = 0
        while at < len(view) and self.receiving and events < EVENTS_MAX:
            size = self._length - self._received if self._length >= 0 else _SLICE_BYTES
            piece = bytes(view[at : at + size])
            try:
                taken, seen = self._parse(piece)
            except h11.RemoteProtocolError:
                self.refuse(400, "the body is malformed")
                break
            except BodyRefused as refused:
                self._end(refused)
                break
            at += taken
            events += seen
        return at

    def _parse(self, piece: bytes) -> tuple[int, int]:
        """Parse a piece; return the bytes of it in the body, and the number of parts found."""
        http, events, taken = self._http, 0, len(piece)
        http.receive_data(piece)
        while True:
            event = http.next_event()
            if isinstance(event, h11.Data):
                events += 1
                self._store(event.data)
                continue
            if isinstance(event, h11.EndOfMessage):
                taken -= len(http.trailing_data[0])
                self._note(piece[:taken])
                if self._length == CHUNKED and (event.headers or self._last_bytes != END):
                    raise BodyRefused(400, "a body has no trailers")
                self._end(None)
            else:
                self._note(piece)
            return taken, events

    def _note(self, piece: bytes) -> None:
        self._received += len(piece)
        self._last_bytes = (self._last_bytes + piece)[-len(END) :]
        framing_max = FRAMING_BYTES_MAX + self._payload // FRAMING_SHARE
        if self._length == CHUNKED and self._received - self._payload > framing_max:
            raise BodyRefused(400, "the chunks of the body are too small")

    def _store(self, data: bytes) -> None:
        self._payload += len(data)
        if self._payload > self._bytes_max:
            raise self._too_long()
        if self._drops:
            return
        if self._budget.body_bytes + len(data) > BODIES_BYTES_MAX:
            raise BodyRefused(
                503, f"the bodies of all requests have {BODIES_BYTES_MAX} bytes, try again"
            )
        self._data += data
        self._budget.body_bytes += len(data)

    def _too_long(self) -> BodyRefused:
        return BodyRefused(413, f"a body has at most {self._bytes_max} bytes here")

    def _end(self, refused: BodyRefused | None) -> None:
        waiting = self._waiting
        if waiting is None or waiting.done():
            return
        self._source.hold_body()
        if refused is None:
            self.done = True
            waiting.set_result(None)
        else:
            self._refused = refused
            waiting.set_exception(refused)
