"""Requests of cold APIs: entities in, entities out, and a task where the handler is a coroutine.

The first request of a version finds nothing imported. A thread does that, and the request is
handled after it: imports take milliseconds, for which no other connection shall wait. Its own does:
what stands behind it is handled when it is answered, as it is while a coroutine waits.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from headrace.frontends.kafka.connection import refusals
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.route import Route
from headrace.model.errors import ApiError, ErrorCode, Malformed
from headrace.model.invariant import InvariantError
from headrace.net.pending import Pending
from headrace.wire.kafka import kio_codec

if TYPE_CHECKING:
    from headrace.ports.disk import Disk

log = logging.getLogger(__name__)

Spawn = Callable[[Coroutine[Any, Any, None]], None]


def call(
    route: Route, context: RequestContext, body: memoryview, *, spawn: Spawn
) -> bytes | Pending:
    """Answer one request whose route is loaded; the response's body, or where it will be."""
    request = kio_codec.decode_request(route.key, route.version, body)
    try:
        answer: Any = route.handle(context, request)
    except Exception as error:  # noqa: BLE001 - every kind is told apart there
        return _answer_to_error(route, error)
    if isinstance(answer, Coroutine):
        pending = Pending()
        spawn(_finish(route, answer, pending))
        return pending
    return answer if isinstance(answer, Pending) else kio_codec.encode_body(answer)


def call_first(
    route: Route, context: RequestContext, body: memoryview, *, spawn: Spawn, disk: "Disk"
) -> Pending:
    """Call as `call` does, after a thread of `disk` has loaded the route. `body` is copied."""
    pending = Pending()
    kept = memoryview(bytearray(body))

    def loaded(result: BaseException | None) -> None:
        try:
            if result is not None:
                raise result
            answer = call(route, context, kept, spawn=spawn)
        except InvariantError:
            raise  # for the loop, which ends the process, the client there or gone
        except Exception as error:  # noqa: BLE001 - the connection is told to end
            pending.fail(error)
        else:
            _hand_on(answer, pending)

    disk.run(route.load, loaded)
    return pending


def _hand_on(answer: bytes | Pending, pending: Pending) -> None:
    """Resolve `pending` with `answer`, when that is there."""
    if not isinstance(answer, Pending):
        pending.resolve(answer)
    elif answer.done:
        pending.resolve(answer.parts())
    elif pending.done:
        answer.abandon()
    else:
        pending.on_abandon = answer.abandon
        answer.wait_in(_Behind(answer, pending))


class _Behind:
    """A pending answer that stands in for another. `net.pending.Waiter`."""

    def __init__(self, answer: Pending, pending: Pending) -> None:
        self._answer = answer
        self._pending = pending

    def answered(self) -> None:
        """Answer; no body means that `failed` is about to say why."""
        body = self._answer.parts()
        if body is not None:
            self._pending.resolve(body)

    def failed(self, problem: Exception) -> None:
        """Give up: there never will be an answer."""
        self._pending.fail(problem)


async def _finish(route: Route, work: Coroutine[Any, Any, Any], pending: Pending) -> None:
    try:
        body = kio_codec.encode_body(await work)
    except asyncio.CancelledError:
        raise
    except Exception as error:  # noqa: BLE001 - every kind is told apart there
        try:
            body = _answer_to_error(route, error)
        except Exception as unanswerable:  # noqa: BLE001 - the connection is told to end
            pending.fail(unanswerable)
            return
    pending.resolve(body)


def _answer_to_error(route: Route, error: Exception) -> bytes:
    """Return a response that says what went wrong, or raise what ends the connection."""
    if isinstance(error, InvariantError):
        raise error
    code = error.code if isinstance(error, ApiError) else ErrorCode.UNKNOWN_SERVER_ERROR
    body = None if isinstance(error, Malformed) else refusals.body(route.key, route.version, code)
    if body is None:
        raise error
    if not isinstance(error, ApiError):
        log.error(
            "a %s request (v%d) met a bug of Headrace and was answered %s: please report it with"
            " this trace", route.key.name, route.version, code.name, exc_info=error,
        )  # fmt: skip
    route.stats.failed(code)
    return body
