"""Handlers of requests: their arguments, results and errors.

*Hot* handlers are plain functions `(context, body) -> Answer`. `body` is the request after its
header, a writable view that is valid only during the call. The result is the response's body, to
which the dispatcher adds length, correlation id and header:

    bytes          the whole body
    list[Part]     several buffers sent one after the other, uncopied; ranges of files among them
    Pending        the same later, by `pending.resolve(bytes | list[Part] | None)`
    None           no answer at all (Produce with acks=0)

*Cold* handlers take and return kio's entities, `(context, request) -> response`, and may be `async
def`, run by one task per request. No other request of the connection is handled meanwhile.

Both raise `Malformed` for malformed requests (the connection is closed), and `CloseConnection`
(net.session) to close the connection where the protocol has no error for a case. Any other
exception is a bug: it is logged with its traceback, and answered UNKNOWN_SERVER_ERROR if the
response has an error code; else the connection is closed.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from headrace.net.pending import Body, Pending
from headrace.wire.kafka.api import ApiKey

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.cluster.controller_port import ControllerPort
    from headrace.coordination.coordinators import Coordinators
    from headrace.frontends.kafka.authentication.authentication import Authentication
    from headrace.frontends.kafka.connection.api import Api
    from headrace.frontends.kafka.connection.hot_state import Shared
    from headrace.frontends.kafka.connection.throttle import Throttle
    from headrace.frontends.kafka.groups.offset_commit_run import OffsetCommitRuns
    from headrace.operations.context import OperationContext
    from headrace.security.identity import Identity

Answer = Body | Pending


_NOT_SET = cast("Shared", None)


def _unheard(seconds: float) -> None:
    """Do nothing: a context without a connection has nothing to mute."""


@dataclass(slots=True)
class RequestContext:
    """A request's API, version and client, with the objects that handlers use.

    A hot handler's context is reused by the connection's next request: keep no reference after the
    call. A cold handler has its own.
    """

    broker: "Broker"
    coordinators: "Coordinators"
    controller: "ControllerPort"
    api_key: ApiKey
    version: int
    client_id: str | None
    identity: "Identity"
    """The principal, address and listener of the client.

    Metadata answers with the addresses of that listener.
    """
    shared: "Shared" = _NOT_SET
    """State that hot handlers share between requests; set by the dispatcher."""
    client_port: int = -1
    client_software: tuple[str, str] = ("", "")
    """Name and version of the client's software, from ApiVersions v3 and later."""
    throttle: "Throttle | None" = None
    """The client's quotas; None while no quota is set."""
    offset_commits: "OffsetCommitRuns | None" = None
    """Pattern of the connection's OffsetCommits; hot handlers only."""
    mute: Callable[[float], None] = _unheard
    """Stops reading the client's requests for so many seconds; cold handlers only."""
    authentication: "Authentication | None" = None
    """The client's SASL authentication, on listeners that require it; else None."""
    on_close: dict[Hashable, Callable[[], None]] = field(default_factory=dict)
    """Callbacks for the end of the connection, by their owner; one dict per connection."""


def operating(context: RequestContext) -> "OperationContext":
    """Return the context in which a request's operations are called."""
    from headrace.operations.context import OperationContext
    from headrace.operations.permissions import Caller, Surface

    caller = Caller(context.identity, Surface.KAFKA, context.api_key.name)
    return OperationContext(context.broker, context.controller, context.coordinators, caller)


HotHandler = Callable[[RequestContext, memoryview], Answer]
Handler = HotHandler | Callable[[RequestContext, Any], Any]
"""A `HotHandler`, or a handler that takes and returns kio's entities."""


def load_handler(api: "Api") -> Handler:
    """Import the handler of an API (1 to 20 ms the first time) and return it; any thread."""
    name = api.module or api.key.name.lower()
    module = import_module(f"headrace.frontends.kafka.{api.folder}.{name}")
    handle: Handler = module.handle
    return handle
