"""The registered operations of a broker's other protocols, called by typed arguments or by JSON.

A frontend adds its operations when it is created. Every call requires the operation's permission; a
call that may change something writes one audit line, whichever protocol it came by.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from headrace.model.errors import ApiError, ErrorCode
from headrace.model.invariant import invariant
from headrace.operations.arguments import Arguments, decode, encode, given, public_fields
from headrace.operations.audit import shown_fields, tell_change
from headrace.operations.permissions import AdminOperation, Caller, require

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

R = TypeVar("R")
Do = Callable[[Caller, Any], Awaitable[Any]]
"""Runs an operation of a caller with its arguments.

Raises ApiError, KeyError, TypeError, ValueError."""


class _Registered(NamedTuple):
    """An operation and its implementation."""

    kind: type[Arguments[Any]]
    do: Do


class Operations:
    """The operations of the protocols that a broker's listeners speak. Used on the event loop."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._by_name: dict[str, _Registered] = {}
        self._changing: set[asyncio.Future[Any]] = set()
        """Changes under way, which nothing else may refer to."""

    @property
    def kinds(self) -> list[type[Arguments[Any]]]:
        """The argument classes of all operations."""
        return [each.kind for each in self._by_name.values()]

    def add(self, operations: Mapping[type[Arguments[Any]], Do]) -> None:
        """Register a protocol's operations by their argument class; an operation name is unique."""
        for kind, do in operations.items():
            invariant(kind.OPERATION not in self._by_name, f"two operations {kind.OPERATION}")
            self._by_name[kind.OPERATION] = _Registered(kind, do)

    async def call(self, caller: Caller, arguments: Arguments[R]) -> R:
        """Authorize and run an operation; return its result. Raises ApiError."""
        registered = self._registered(arguments.OPERATION)
        work = self._run(caller, registered, lambda: arguments, given(arguments))
        result: R = await (self._to_its_end(work) if registered.kind.MUTATES else work)
        return result

    async def _to_its_end(self, work: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401 - its result
        """Run a change, also if its caller is cancelled: the audit line tells what became of it."""
        task = asyncio.ensure_future(work)
        self._changing.add(task)
        task.add_done_callback(self._changed)
        return await asyncio.shield(task)

    def _changed(self, task: "asyncio.Future[Any]") -> None:
        self._changing.discard(task)
        if not task.cancelled():
            task.exception()  # an error that no caller waits for is in the audit log

    async def call_json(self, caller: Caller, name: str, question: Mapping[str, Any]) -> object:
        """Authorize and run an operation whose arguments are a JSON object; return a JSON value.

        ApiError; an unknown operation is refused before the caller's permission is checked.
        """
        registered = self._registered(name)
        if not registered.kind.RETURNS_JSON:
            raise _unknown(name)
        return encode(
            await self._run(caller, registered, lambda: decode(registered.kind, question), question)
        )

    def _registered(self, name: str) -> _Registered:
        """Return an operation by name. ApiError: unknown, or no protocol here has operations."""
        if not self._by_name:
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION,
                "no listener of this broker has a protocol with operations: send the request to a"
                " broker with such a listener",
            )
        registered = self._by_name.get(name)
        if registered is None:
            raise _unknown(name)
        return registered

    async def _run(
        self,
        caller: Caller,
        registered: _Registered,
        arguments: Callable[[], Arguments[Any]],
        shown: Mapping[str, object],
    ) -> Any:  # noqa: ANN401 - the operation's own result
        """Authorize, decode and run an operation, and write its audit line. Raises ApiError."""
        kind, do = registered
        code = ErrorCode.UNKNOWN_SERVER_ERROR
        asks = AdminOperation.CHANGE_PROTOCOL if kind.MUTATES else AdminOperation.LIST_PROTOCOL
        try:
            require(self._broker, caller, asks, tag=kind.TAG)
            result = await do(caller, arguments())
            code = ErrorCode.NONE
            return result
        except ApiError as error:
            code = error.code
            raise
        except (KeyError, TypeError, ValueError) as error:
            # Invalid arguments of a hand-written request: our own tools check theirs.
            code = ErrorCode.INVALID_REQUEST
            text = f"{kind.OPERATION}: {error.args[0] if error.args else error}"
            raise ApiError(code, text) from error
        finally:
            if kind.MUTATES:
                asked = shown_fields(shown, public_fields(kind))
                detail = {"operation": kind.OPERATION, "asked": asked}
                tell_change(self._broker.audit, caller, code, detail)


def _unknown(name: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, f"no operation {name[:100]!r} is known here")
