"""HTTP/1.1 connections: whole heads in, judged by h11, one answer at a time.

    bytes --frames--> a head, cut at its empty line --h11--> Request --router--> Handler | reply
                                                                                    |
    the client <--push-- h11 <--HttpReply-------------------- task, frames are held |

Bounds. A head has `HEAD_BYTES_MAX`; a body is refused, so h11 never holds more than that. A
request is taken when the answer before it is sent and the client has room for another; those that
are pipelined behind it stay in the receive buffer, unread ones in the socket. Deadlines of the
first request, of an unfinished head and of unread answers are `net`'s; an idle connection is closed
after `KEEP_ALIVE_SECONDS`, or before, when another client needs its place.

The end of what a client sends is not seen while an answer is under way, as nothing is read then: a
client that half-closes gets all that it asked for.

A line that ends without CR is refused, and one that continues the line before it: proxies disagree
on where such a head or field ends.
"""

import asyncio
import re
from typing import TYPE_CHECKING, Any, Protocol

import h11

from headrace.frontends.http.router import REASONS, Handler, HttpReply, HttpRequest, text
from headrace.net.connection import Connection
from headrace.security.identity import Identity

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.frontends.http.router import HttpRouter
    from headrace.net.pending import Pending
    from headrace.ports.clock import Timer
    from headrace.ports.disk import Buffer

HEAD_BYTES_MAX = 8192
"""A request's line and fields, empty line included."""
REQUESTS_MAX = 1000
"""Requests of one connection; the last answer closes it."""
KEEP_ALIVE_SECONDS = 75.0
"""More than a minute, the longest usual interval of scrapes."""
DISCARD_BYTES_MAX = 1 << 20
DISCARD_SECONDS = 1.0
"""Of a refused body so much is read, for so long: a client that still sends would else see its
connection reset, and never the answer."""

_END = b"\r\n\r\n"
_AMBIGUOUS = re.compile(rb"(?<!\r)\n|\n[ \t]")
_AUTHORITY = re.compile(r"https?://[^/?#]*", re.IGNORECASE)


class Serving(Protocol):
    """The endpoint whose connection it is. `endpoint.Endpoint`."""

    router: "HttpRouter"
    call_later: "Callable[[float, Callable[[], None]], Timer]"

    async def answered(self, handler: Handler, request: HttpRequest, /) -> HttpReply:
        """Return the handler's reply, or one that says that it failed."""

    def forget(self, session: "HttpSession", /) -> None:
        """Forget a session whose connection is closed."""


class HttpSession:
    """A connection of HTTP. `net.stream.StreamSession`."""

    def __init__(self, endpoint: Serving, connection: Connection) -> None:
        self._endpoint = endpoint
        self._connection = connection
        self._stream = connection.stream(self)
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        self._answering: asyncio.Task[None] | None = None
        """The request that is being answered; frames are held until it is."""
        self._requests = 0
        self._last = False
        """Whether the connection ends with the answer under way: the broker stops."""
        self._ended = False
        """Whether nothing more is answered: all that comes is discarded."""
        self._discarded = 0
        self._timer: Timer | None = None
        connection.idle_seconds_max = KEEP_ALIVE_SECONDS

    # net's side

    def frames(self, view: memoryview, at: int, filled: int) -> int:
        """Take the whole heads in `view[at:filled]`; return where the first byte left over is."""
        while at < filled and not self._ended and not self._stream.held:
            if not self._stream.takes_more():
                return at
            head = bytes(view[at : min(filled, at + HEAD_BYTES_MAX)])
            end = head.find(_END)
            whole = head if end < 0 else head[: end + len(_END)]
            refusal = _refusal(whole, complete=end >= 0)
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
        """Return how many bytes make the head at `at` whole; at least, while that is unknown."""
        head = bytes(view[at : min(filled, at + HEAD_BYTES_MAX)])
        end = head.find(_END)
        return end + len(_END) if end >= 0 else min(len(head) + 1, HEAD_BYTES_MAX)

    def room(self) -> None:
        """Do nothing: heads that wait for room come again."""

    def pass_done(self) -> "Pending | None":
        """End the pass: nothing that was sent waits for a write."""
        return None

    def closed(self) -> None:
        """Stop the answer under way."""
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
        if self._answering is not None:
            self._answering.cancel()
        self._endpoint.forget(self)

    # the endpoint's side

    def shut_down(self) -> "list[asyncio.Task[Any]]":
        """End the connection after the answer under way, which is returned."""
        self._last = True
        if self._answering is not None:
            return [self._answering]
        self._end()
        return []

    # one request

    def _take(self, head: bytes) -> None:
        """Answer the request of a whole head: now, or by a task for which frames are held."""
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
        method, path = request.method.decode("ascii"), _path(request.target.decode("ascii"))
        found = self._endpoint.router.find(method, path)
        if not bodyless and not isinstance(found, HttpReply):
            found = text(413, "a request has no body here")
        if isinstance(found, HttpReply):
            self._finish(found, close=not bodyless, discards=not bodyless, to=method)
            return None
        connection = self._connection
        identity = Identity(connection.address, connection.listener, connection.principal)
        self._rest(False)
        self._stream.hold()
        asked = HttpRequest(method, path, identity)
        self._answering = asyncio.get_running_loop().create_task(self._answer(found, asked))
        return None

    async def _answer(self, handler: Handler, request: HttpRequest) -> None:
        reply = await self._endpoint.answered(handler, request)
        self._answering = None
        self._finish(reply, to=request.method)
        self._stream.go_on()

    def _finish(
        self, reply: HttpReply, *, close: bool = False, discards: bool = False, to: str = "GET"
    ) -> None:
        """Send the answer to a request of method `to`, then end or await the next request.

        `discards`: the client may still be sending, and is not cut off at once.
        """
        close = close or self._last or self._requests >= REQUESTS_MAX
        self._send(reply, close=close, head_only=to == "HEAD")
        http = self._http
        if http.our_state is h11.DONE and http.their_state is h11.DONE:
            http.start_next_cycle()
            self._rest(True)
        elif not discards:
            self._end()
        else:
            self._ended = True
            self._timer = self._endpoint.call_later(DISCARD_SECONDS, self._stream.end)

    def _send(self, reply: HttpReply, *, close: bool, head_only: bool = False) -> None:
        headers = [
            ("Content-Type", reply.content_type),
            ("Content-Length", str(len(reply.body))),
            ("X-Content-Type-Options", "nosniff"),
            *reply.headers,
        ]
        if close:
            headers.append(("Connection", "close"))
        reason = REASONS[reply.status]
        response = h11.Response(status_code=reply.status, headers=headers, reason=reason.encode())
        parts: list[Buffer] = [self._http.send(response) or b""]
        if reply.body and not head_only:
            # Not joined with the head: a scrape may have megabytes.
            parts += self._http.send_with_data_passthrough(h11.Data(data=reply.body)) or []
        self._http.send(h11.EndOfMessage())
        self._stream.push(parts)

    # ends

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


def _path(target: str) -> str:
    """Return the path of a request target, which may name the server as for a proxy."""
    return _AUTHORITY.sub("", target, count=1).partition("?")[0] or "/"


def _refusal(head: bytes, *, complete: bool) -> tuple[int, str] | None:
    """Return status and text for a head that h11 is not asked about; None: there is no fault."""
    if head[0] <= 0x20 or _AMBIGUOUS.search(head):
        return 400, "bad request"
    if not complete and len(head) >= HEAD_BYTES_MAX:
        if b"\r\n" not in head:
            return 414, f"a request line has at most {HEAD_BYTES_MAX} bytes"
        return 431, f"a request's head has at most {HEAD_BYTES_MAX} bytes"
    return None
