"""What the handler of a request is handed, and what it gives back.

*Hot* handlers are plain functions `(context, body) -> Answer`. `body` is the request after its
header, a writable view that is valid only during the call: copy what must outlive it. What they
return is the response's body; the dispatcher puts length, correlation id and header before it:

    bytes          the whole body
    list[Part]     several buffers sent one after the other, uncopied; ranges of files among them
    Pending        the same later, by `pending.resolve(bytes | list[Part] | None)`
    None           no answer at all (Produce with acks=0)

*Cold* handlers take and return kio's entities, `(context, request) -> response`, and may be
`async def`; then one task per request runs them. Nothing else of the connection is under way then.

Both raise `Malformed` for bytes that are no request (the connection is closed), and
`CloseConnection` (net.session) to close the connection by intent, where the protocol has no
other way to say it. Any other exception is a bug: it is logged with its traceback, and answered
UNKNOWN_SERVER_ERROR where the response has a place for that; else that connection is closed.
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
    """Who asks, in what version, and who can answer.

    A hot handler's context is reused by the connection's next request: read what you need during
    the call, keep no reference. A cold handler has its own.
    """

    broker: "Broker"
    coordinators: "Coordinators"
    controller: "ControllerPort"
    api_key: ApiKey
    version: int
    client_id: str | None
    identity: "Identity"
    """Who asks, from where, and through which listener: Metadata answers with that one's addresses.
    """
    shared: "Shared" = _NOT_SET
    """What hot handlers keep between requests; set by the dispatcher."""
    client_port: int = -1
    client_software: tuple[str, str] = ("", "")
    """Name and version, as the client told them with ApiVersions v3 and later."""
    throttle: "Throttle | None" = None
    """The client's quotas while any are set."""
    offset_commits: "OffsetCommitRuns | None" = None
    """What is known of the connection's OffsetCommits; hot handlers only."""
    mute: Callable[[float], None] = _unheard
    """Read no more of the client's requests for so many seconds; cold handlers only."""
    authentication: "Authentication | None" = None
    """How the client authenticates, on listeners where it must."""
    on_close: dict[Hashable, Callable[[], None]] = field(default_factory=dict)
    """What is to be done when the connection ends, by whom it is for; one dict a connection."""


def operating(context: RequestContext) -> "OperationContext":
    """Return the context in which a request's operations are called."""
    from headrace.operations.context import OperationContext
    from headrace.operations.permissions import Caller, Surface

    caller = Caller(context.identity, Surface.KAFKA, context.api_key.name)
    return OperationContext(context.broker, context.controller, context.coordinators, caller)


HotHandler = Callable[[RequestContext, memoryview], Answer]
Handler = HotHandler | Callable[[RequestContext, Any], Any]
"""What answers: `HotHandler`, or one that takes and returns kio's entities."""


def load_handler(api: "Api") -> Handler:
    """Import the code that answers `api`, the first time (1 to 20 ms), and return it.

    On any thread.
    """
    name = api.module or api.key.name.lower()
    module = import_module(f"headrace.frontends.kafka.{api.folder}.{name}")
    handle: Handler = module.handle
    return handle
