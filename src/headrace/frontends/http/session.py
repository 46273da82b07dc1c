"""HTTP/1.1 connections: complete heads in, parsed by h11, one answer at a time.

    bytes --frames--> a head, cut at its empty line --h11--> Request --router--> Handler | reply
                                                                                    |
    the client <--push-- h11 <--HttpReply-------------------- task, frames are held |

Bounds. A head has `HEAD_BYTES_MAX`; a body is refused, so h11 never buffers more. A request is
handled when the answer before it is sent and the client has room for another. Pipelined requests
stay in the receive buffer, unread ones in the socket. `net` has the deadlines of the first request,
of an unfinished head and of unread answers. An idle connection is closed after
`KEEP_ALIVE_SECONDS`, or earlier when another client needs its place.

While an answer is pending nothing is read, so the client's end of input is not noticed: a client
that half-closes gets all answers. The handler of a client that has left runs until it returns or
its time (`endpoint.ANSWER_SECONDS_MAX`) is over; it is cancelled if `net` closes the connection.

A line that ends without CR is refused, and so is a folded one: proxies disagree on where such a
head or field ends.
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
"""Longest head of a request in bytes, its empty line included."""
REQUESTS_MAX = 1000
"""Requests of one connection; the last answer closes it."""
KEEP_ALIVE_SECONDS = 75.0
"""Seconds until an idle connection is closed: above the longest usual scrape interval."""
DISCARD_BYTES_MAX = 1 << 20
DISCARD_SECONDS = 1.0
"""Seconds, and `DISCARD_BYTES_MAX` bytes, for which a refused body is read and dropped.

A client that is still sending would otherwise see a reset instead of the answer.
"""

_END = b"\r\n\r\n"
_AMBIGUOUS = re.compile(rb"(?<!\r)\n|\n[ \t]")
_AUTHORITY = re.compile(r"https?://[^/?#]*", re.IGNORECASE)


class Serving(Protocol):
    """The HTTP endpoint that a connection belongs to. Implemented by `endpoint.Endpoint`."""

    router: "HttpRouter"
    call_later: "Callable[[float, Callable[[], None]], Timer]"

    async def answered(self, handler: Handler, request: HttpRequest, /) -> HttpReply:
        """Return the handler's reply, or an error reply if it fails."""

    def forget(self, session: "HttpSession", /) -> None:
        """Forget a session whose connection is closed."""


class HttpSession:
    """An HTTP connection. Implements `net.stream.StreamSession`."""

    def __init__(self, endpoint: Serving, connection: Connection) -> None:
        self._endpoint = endpoint
        self._connection = connection
        self._stream = connection.stream(self)
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        self._answering: asyncio.Task[None] | None = None
        """The task of the pending answer, while frames are held; None: no answer is pending."""
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
        """Handle the complete heads in `view[at:filled]`; return the index after the last one."""
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
        """Return the bytes of the head at `at`, or a lower bound while it is incomplete."""
        head = bytes(view[at : min(filled, at + HEAD_BYTES_MAX)])
        end = head.find(_END)
        return end + len(_END) if end >= 0 else min(len(head) + 1, HEAD_BYTES_MAX)

    def room(self) -> None:
        """Ignore the call: held frames are passed to `frames` again."""

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
        """End the connection after the pending answer, whose task is returned."""
        self._last = True
        if self._answering is not None:
            return [self._answering]
        self._end()
        return []

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

        `discards`: the client may still be sending, so the connection is not cut off at once.
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


def _path(target: str) -> str:
    """Return the path of a request target, which may include scheme and host."""
    return _AUTHORITY.sub("", target, count=1).partition("?")[0] or "/"


def _refusal(head: bytes, *, complete: bool) -> tuple[int, str] | None:
    """Return status and text for a head that is refused before h11 parses it, or None."""
    if head[0] <= 0x20 or _AMBIGUOUS.search(head):
        return 400, "bad request"
    if not complete and len(head) >= HEAD_BYTES_MAX:
        if b"\r\n" not in head:
            return 414, f"a request line has at most {HEAD_BYTES_MAX} bytes"
        return 431, f"a request's head has at most {HEAD_BYTES_MAX} bytes"
    return None
