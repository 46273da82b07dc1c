"""HTTP/1.1 connections: complete heads in, parsed by h11, one answer at a time.

    bytes --frames--> a head, cut at its empty line --h11--> Request --router--> Found | reply
          |                                                                        |
          '---------> RequestBody, while the handler reads it <-- task, else frames are held
                                                                                   |
    the client <--push-- h11 <--Sender-- bytes, or pieces as the client reads <--HttpReply

Bounds. A head has `heads.HEAD_BYTES_MAX`; `bodies` has the limits of bodies, whose route must allow
them. A request is handled when the answer before it is sent and the client has room for another.
Pipelined requests stay in the receive buffer, unread ones in the socket. `net` has the deadlines of
the first request, of an unfinished head and of unread answers. An idle connection is closed after
`KEEP_ALIVE_SECONDS`, or earlier when another client needs its place.

While an answer is pending nothing but its request's body is read, so the client's end of input is
not noticed: a client that half-closes gets all answers. The handler of a client that has left runs
until it returns, its time (`endpoint.ANSWER_SECONDS_MAX`) is over or its next piece cannot be sent;
it is cancelled if `net` closes the connection.
"""

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

import h11

from headrace.frontends.http import heads
from headrace.frontends.http.heads import HEAD_BYTES_MAX
from headrace.frontends.http.router import (
    EVENT_STREAM,
    NO_BODY,
    REASONS,
    Found,
    Handler,
    HttpReply,
    HttpRequest,
    Pieces,
    text,
)
from headrace.frontends.http.sending import PIECE_SECONDS_MAX, Sender
from headrace.net.connection import Connection
from headrace.security.identity import Identity

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.frontends.http.bodies import RequestBody
    from headrace.frontends.http.router import Router
    from headrace.net.pending import Pending
    from headrace.ports.clock import Timer

REQUESTS_MAX = 1000
"""Requests of one connection; the last answer closes it."""
KEEP_ALIVE_SECONDS = 75.0
"""Seconds until an idle connection is closed: above the longest usual scrape interval."""
DISCARD_BYTES_MAX = 1 << 20
DISCARD_SECONDS = 1.0
"""Seconds, and `DISCARD_BYTES_MAX` bytes, for which a refused body is read and dropped.

A client that is still sending would otherwise see a reset instead of the answer.
"""


class Serving(Protocol):
    """The HTTP endpoint that a connection belongs to. Implemented by `endpoint.Endpoint`."""

    router: "Router"
    call_later: "Callable[[float, Callable[[], None]], Timer]"
    body_bytes: int

    async def answered(
        self, handler: Handler, request: HttpRequest, body: "RequestBody | None", /
    ) -> HttpReply:
        """Return the handler's reply, or an error reply if it fails. `body`: the request's."""

    def failed(self, request: HttpRequest, problem: Exception, /) -> None:
        """Log a bug in a handler, or stop the process if an invariant is broken."""

    def forget(self, session: "HttpSession", /) -> None:
        """Forget a session whose connection is closed."""


class HttpSession:
    """An HTTP connection. Implements `net.stream.StreamSession` and `bodies.Source`."""

    def __init__(self, endpoint: Serving, connection: Connection) -> None:
        self._endpoint = endpoint
        self._connection = connection
        self._stream = connection.stream(self)
        self._sender = Sender(self._stream)
        self._http = _parser()
        self._answering: asyncio.Task[None] | None = None
        """The task of the pending answer, while frames are held; None: no answer is pending."""
        self._body: RequestBody | None = None
        """The body of the request that is being answered; None without one."""
        self._kept: dict[str, Any] = {}
        self._events = False
        """Whether the pending answer is a stream of events, which has no end of its own."""
        self._requests = 0
        self._last = False
        """Whether the connection ends with the pending answer: the broker stops."""
        self._ended = False
        """Whether further requests are unanswered, and received bytes dropped."""
        self._discarded = 0
        self._timer: Timer | None = None
        connection.idle_seconds_max = KEEP_ALIVE_SECONDS

    # Calls from `net`

    def frames(self, view: memoryview, at: int, filled: int) -> int:
        """Handle heads and bodies in `view[at:filled]`; return the index of the first byte left."""
        while at < filled and not self._ended and not self._stream.held:
            if self._body is not None and self._body.receiving:
                return at + self._body.feed(view[at:filled])
            if not self._stream.takes_more():
                return at
            head = bytes(view[at : min(filled, at + HEAD_BYTES_MAX)])
            end = head.find(heads.END)
            whole = head if end < 0 else head[: end + len(heads.END)]
            refusal = heads.refusal(whole, complete=end >= 0)
            if refusal is not None:
                self._finish(text(*refusal), close=True, discards=end < 0)
            elif end < 0:
                return at
            else:
                at += len(whole)
                self._take(whole)
        if self._ended:
            self._discard(filled - at)
            return filled
        return at

    def need(self, view: memoryview, at: int, filled: int) -> int:
        """Return the bytes of the head at `at`, or a lower bound while it is incomplete."""
        if self._body is not None and self._body.receiving:
            return 1  # the rest of the body has its turn later
        head = bytes(view[at : min(filled, at + HEAD_BYTES_MAX)])
        end = head.find(heads.END)
        return end + len(heads.END) if end >= 0 else min(len(head) + 1, HEAD_BYTES_MAX)

    def room(self) -> None:
        """Send the next piece of an answer; held frames are passed to `frames` again."""
        self._sender.room()

    def pass_done(self) -> "Pending | None":
        """Return None: no answer waits for a write."""
        return None

    def closed(self) -> None:
        """Cancel the pending answer: the connection is closed."""
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
        if self._answering is not None:
            self._answering.cancel()
        self._endpoint.forget(self)

    # Calls from the endpoint

    def shut_down(self) -> "list[asyncio.Task[Any]]":
        """End the connection after the pending answer, whose task is returned.

        A body that is not complete is refused, and a stream of events ends.
        """
        self._last = True
        if self._answering is None:
            self._end()
            return []
        if self._body is not None:
            self._body.refuse(503, "the broker is stopping")
        if self._events:
            self._answering.cancel()
        return [self._answering]

    def cut(self) -> None:
        """Drop the connection, if it is open: the broker has waited for its answer."""
        if not self._ended:
            self._connection.abort("the broker is stopping, and an answer is not read")

    # Calls from the body

    def receive_body(self) -> None:
        """Receive the body of the pending request, after `100 Continue` if the client waits."""
        if self._http.they_are_waiting_for_100_continue:
            goes_on = h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue")
            self._stream.push(self._http.send(goes_on) or b"")
        self._stream.go_on()

    def hold_body(self) -> None:
        """Receive nothing until the request is answered."""
        self._stream.hold()

    # Requests

    def _take(self, head: bytes) -> None:
        """Handle a request: answer at once, or by a task during which frames are held."""
        http = self._http
        try:
            http.receive_data(head)
            request = http.next_event()
            bodyless = isinstance(http.next_event(), h11.EndOfMessage)
        except h11.RemoteProtocolError as error:
            status = 501 if error.error_status_hint == 501 else 400
            return self._finish(text(status, REASONS[status].lower()), close=True, discards=True)
        self._requests += 1
        if not isinstance(request, h11.Request) or request.http_version not in {b"1.0", b"1.1"}:
            return self._finish(text(400, "bad request"), close=True)
        method = request.method.decode("ascii")
        path, query = heads.path_and_query(request.target.decode("ascii"))
        found = self._endpoint.router.find(method, path)
        length = 0
        if isinstance(found, Found) and not bodyless:
            length, refusal = _length_of(found, head, request.http_version)
            found = found if refusal is None else refusal
        if isinstance(found, HttpReply):
            return self._finish(found, close=not bodyless, discards=not bodyless, to=method)
        connection = self._connection
        identity = Identity(connection.address, connection.listener, connection.principal)
        self._rest(False)
        self._stream.hold()
        route, values = found
        body = None
        if length:
            from headrace.frontends.http.bodies import RequestBody

            body = RequestBody(http, length, route.body_bytes_max, self, self._endpoint)
        headers = tuple(request.headers)
        asked = HttpRequest(
            method, path, identity, query, headers, values, body or NO_BODY, route.path, self._kept
        )
        self._body = body
        self._answering = asyncio.get_running_loop().create_task(
            self._answer(route.handler, asked, body)
        )
        return None

    async def _answer(
        self, handler: Handler, request: HttpRequest, body: "RequestBody | None"
    ) -> None:
        try:
            reply = await self._endpoint.answered(handler, request, body)
            try:
                kept = body is None or await body.drop(DISCARD_BYTES_MAX, DISCARD_SECONDS)
            except BaseException:
                await _close(reply)
                raise
            if not isinstance(reply.body, bytes) and request.method != "HEAD":
                await self._send_pieces(request, reply, reply.body, close=not kept)
                return
            await _close(reply)
        finally:
            if body is not None:
                body.release()
            self._answering = self._body = None
        self._finish(reply, close=not kept, discards=not kept, to=request.method)
        self._stream.go_on()

    async def _send_pieces(
        self, request: HttpRequest, reply: HttpReply, body: Pieces, *, close: bool
    ) -> None:
        """Send a reply whose body is made meanwhile. A body that breaks off ends the connection."""
        self._events = reply.content_type == EVENT_STREAM
        closes = close or self._last or self._requests >= REQUESTS_MAX
        try:
            await self._sender.pieces(self._http, reply, body, close=closes)
        except asyncio.CancelledError:
            if self._ended or not self._last:
                raise
            # The broker stops: the stream of events has its end.
        except TimeoutError:
            self._connection.abort(f"the rest of an answer took more than {PIECE_SECONDS_MAX:g} s")
            return
        except Exception as problem:  # noqa: BLE001 - a bug ends one connection
            self._endpoint.failed(request, problem)
            self._connection.abort("an answer could not be completed")
            return
        finally:
            self._events = False
        self._sender.end(self._http)
        self._next(discards=close)
        self._stream.go_on()

    def _finish(
        self, reply: HttpReply, *, close: bool = False, discards: bool = False, to: str = "GET"
    ) -> None:
        """Send the answer to a request of method `to`, then end or await the next request.

        `discards`: the client may still be sending, so the connection is not cut off at once.
        """
        close = close or self._last or self._requests >= REQUESTS_MAX
        self._sender.whole(self._http, reply, close=close, head_only=to == "HEAD")
        self._next(discards=discards)

    def _next(self, *, discards: bool) -> None:
        http = self._http
        if http.our_state is h11.DONE and http.their_state is h11.DONE and not self._last:
            if http.trailing_data[0]:
                # Behind a body in chunks h11 has the next request, which `net` passes again.
                self._http = _parser()
            else:
                http.start_next_cycle()
            self._rest(True)
        elif not discards:
            self._end()
        else:
            self._ended = True
            self._timer = self._endpoint.call_later(DISCARD_SECONDS, self._stream.end)

    # End of the connection

    def _rest(self, resting: bool) -> None:
        place = self._connection.place
        if place is not None:
            place.yields = resting

    def _end(self) -> None:
        """End the connection once the answers are sent."""
        self._ended = True
        self._stream.end()

    def _discard(self, count: int) -> None:
        self._discarded += count
        if self._discarded > DISCARD_BYTES_MAX:
            self._stream.end()


def _parser() -> h11.Connection:
    return h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)


def _length_of(found: Found, head: bytes, version: bytes) -> tuple[int, HttpReply | None]:
    """Return the length of a request's body, and why the body is refused, or None."""
    if not found.route.body_bytes_max:
        return 0, text(413, "a request has no body here")
    try:
        return heads.body_length(head, version), None
    except ValueError as error:
        return 0, text(400, str(error))


async def _close(reply: HttpReply) -> None:
    if not isinstance(reply.body, bytes):
        await reply.body.aclose()
