"""Execution of cold APIs' requests: kio entities in and out, a task for a coroutine handler.

The first request of a version needs imports, which take milliseconds: a thread does them, and the
request is handled afterwards, so other connections do not wait. Later requests of its own
connection wait for its answer, as they do while a coroutine runs.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.frontends.kafka.connection import refusals
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.route import Route
from headrace.model.errors import ApiError, ErrorCode, Malformed
from headrace.model.invariant import InvariantError
from headrace.net.pending import Body, Pending
from headrace.wire.kafka import kio_codec

if TYPE_CHECKING:
    from headrace.ports.disk import Disk

log = logging.getLogger(__name__)

Spawn = Callable[[Coroutine[Any, Any, None]], None]


def call(
    route: Route, context: RequestContext, body: memoryview, *, spawn: Spawn
) -> bytes | Pending:
    """Handle a request whose route is loaded; return the response's body, or a pending one."""
    request = kio_codec.decode_request(route.key, route.version, body)
    told = partial(_tell, context, request) if route.changes else _nothing_changed
    try:
        answer: Any = route.handle(context, request)
    except Exception as error:  # noqa: BLE001 - sorted by kind in `_answer_to_error`
        told(error)
        return _answer_to_error(route, error)
    if isinstance(answer, Coroutine):
        pending = Pending()
        spawn(_finish(route, answer, pending, told))
        return pending
    if isinstance(answer, Pending):
        return _told_of(route, answer, told) if route.changes else answer
    encoded = kio_codec.encode_body(answer)
    told(answer)
    return encoded


def _nothing_changed(answer: Any) -> None:  # noqa: ANN401 - a kio entity
    """Do nothing: the API has no audit lines."""


def _tell(context: RequestContext, request: Any, answer: Any) -> None:  # noqa: ANN401
    """Write audit lines for a request's changes or its failure; log an exception of that."""
    from headrace.frontends.kafka.connection import changes

    try:
        if not isinstance(answer, BaseException):
            changes.tell(context, request, answer)
        elif isinstance(answer, asyncio.CancelledError):
            changes.tell_failed(context, None)
        elif not isinstance(answer, Malformed):
            unknown = ErrorCode.UNKNOWN_SERVER_ERROR
            changes.tell_failed(context, answer.code if isinstance(answer, ApiError) else unknown)
    except Exception:
        log.exception(
            "audit lines for the changes of a %s request could not be written",
            context.api_key.name,
        )


def _told_of(route: Route, answer: Pending, told: Callable[[Any], None]) -> Pending:
    """Return an answer in place of `answer`, audited even if the client has disconnected."""

    def tell(body: Body) -> None:
        if isinstance(body, bytes):
            told(kio_codec.decode_response(route.key, route.version, memoryview(body)))

    pending = Pending()
    if answer.done:
        body = answer.parts()
        tell(body)
        pending.resolve(body)
    else:
        answer.wait_in(_Behind(answer, pending, tell))
    return pending


def call_first(
    route: Route, context: RequestContext, body: memoryview, *, spawn: Spawn, disk: "Disk"
) -> Pending:
    """Handle a request after a thread of `disk` has imported its code; `body` is copied."""
    pending = Pending()
    kept = memoryview(bytearray(body))

    def loaded(result: BaseException | None) -> None:
        try:
            if result is not None:
                raise result
            answer = call(route, context, kept, spawn=spawn)
        except InvariantError:
            raise  # for the loop, which ends the process, even if the client has disconnected
        except Exception as error:  # noqa: BLE001 - the connection is told to end
            pending.fail(error)
        else:
            _hand_on(answer, pending)

    disk.run(route.load, loaded)
    return pending


def _hand_on(answer: bytes | Pending, pending: Pending) -> None:
    """Resolve `pending` with `answer`, at once or when that is resolved."""
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
    """The waiter that resolves one pending answer with another. Implements `net.pending.Waiter`."""

    def __init__(
        self, answer: Pending, pending: Pending, told: Callable[[Body], None] = _nothing_changed
    ) -> None:
        self._answer = answer
        self._pending = pending
        self._told = told

    def answered(self) -> None:
        """Resolve the pending answer; no body: `failed` is about to be called."""
        body = self._answer.parts()
        if body is not None:
            self._told(body)
            self._pending.resolve(body)

    def failed(self, problem: Exception) -> None:
        """Fail the pending answer, as the answer that it stands for has failed."""
        self._pending.fail(problem)


async def _finish(
    route: Route,
    work: Coroutine[Any, Any, Any],
    pending: Pending,
    told: Callable[[Any], None],
) -> None:
    try:
        answer = await work
        body = kio_codec.encode_body(answer)
        told(answer)
    except asyncio.CancelledError as stopped:
        told(stopped)
        raise
    except Exception as error:  # noqa: BLE001 - sorted by kind in `_answer_to_error`
        told(error)
        try:
            body = _answer_to_error(route, error)
        except Exception as unanswerable:  # noqa: BLE001 - the connection is told to end
            pending.fail(unanswerable)
            return
    pending.resolve(body)


def _answer_to_error(route: Route, error: Exception) -> bytes:
    """Return a response with an error code, or raise the error that ends the connection."""
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
