"""Dispatch of Kafka requests: from a frame to its handler, and back to a framed answer.

A table of routes, by API key and version in one integer (the first four bytes of a request), holds
all that is constant; a session per connection holds the state of its requests. A hot API has no
task and no object per request.

Kafka handles a connection's next request after the answer to the last one was sent. So does this
broker for cold APIs, and for hot ones that read state set by earlier requests (`Api.in_turn`).
Produce, Fetch and other hot APIs are handled on arrival and answered in order.
"""

import asyncio
import struct
from collections.abc import Coroutine, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.config.listeners import spoken_rows
from headrace.frontends.kafka.authentication import authentication_stage
from headrace.frontends.kafka.authentication.between_brokers import listeners_for_brokers
from headrace.frontends.kafka.authentication.stage import Stage
from headrace.frontends.kafka.connection import api_versions
from headrace.frontends.kafka.connection.api import Api
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.hot_state import Shared
from headrace.frontends.kafka.connection.registry import OPERATION_APIS, PEER_APIS
from headrace.frontends.kafka.connection.route import Route, pack_plain, pack_tagged
from headrace.frontends.kafka.connection.throttle import Throttle
from headrace.frontends.kafka.connection.throttled_answers import told
from headrace.frontends.kafka.groups.offset_commit_run import OffsetCommitRuns
from headrace.frontends.kafka.produce.commit_group import CommitGroup
from headrace.frontends.kafka.produce.produce_run import ProduceRuns
from headrace.model.errors import Malformed
from headrace.net.pending import Body, Pending
from headrace.net.session import InTurn, Run
from headrace.observe.metrics import Metrics
from headrace.security.identity import Identity
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.frame import parse_request

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.broker.gathered_writes import GatheredWrites
    from headrace.cluster.controller_port import ControllerPort
    from headrace.cluster.peers.peer_port import PeerPort
    from headrace.coordination.coordinators import Coordinators
    from headrace.frontends.kafka.authentication.authentication import Authentication
    from headrace.net.connection import Connection
    from headrace.operations.registry import Operations

_HEAD_BYTES = 10
_KEY_AT = 5
"""Position of an API key's lower byte, with the frame's length before it."""
_unpack_head = struct.Struct(">iih").unpack_from
_LATENCY_SAMPLE_MASK = 15
"""Mask of timed hot requests: one in sixteen, as timing each would cost more than a Heartbeat."""
_NOT_TIMED = -1.0


class Dispatcher:
    """State of the Kafka frontend shared by all connections."""

    def __init__(
        self,
        broker: "Broker",
        coordinators: "Coordinators",
        controller: "ControllerPort",
        apis: Iterable[Api],
        metrics: Metrics,
        writes: "GatheredWrites | None" = None,
        peers: "PeerPort | None" = None,
        operations: "Operations | None" = None,
    ) -> None:
        """Create the shared state.

        `writes` gathers the disk writes of a pass; None: each is done at once.

        `peers` executes requests of other brokers; None: no cluster. `operations` are those of
        other protocols; None: no other protocol is served.
        """
        self.broker = broker
        self.coordinators = coordinators
        self.controller = controller
        administered = any(row.administered for row in spoken_rows(broker.config.listeners))
        self.apis = (*apis, *OPERATION_APIS) if administered else tuple(apis)
        served = self.apis if peers is None else (*self.apis, *PEER_APIS)
        self.routes: dict[int, Route] = {
            int(api.key) << 16 | version: Route(api, version, metrics.api(api.key))
            for api in served
            for version in range(api.min_version, api.max_version + 1)
        }
        self.staged_routes = authentication_stage.routes_in(self.routes)
        """Routes by stage, for connections that must authenticate, first or again."""
        self.authenticating = authentication_stage.listeners_with(broker.config.listeners)
        """Names of listeners whose connections must authenticate."""
        self.shared = Shared(
            broker.clock,
            broker.random,
            broker.config.max_incremental_fetch_session_cache_slots,
            self.apis,
            spawn=self.spawn,
            writes=writes,
            peers=peers,
            broker_listeners=None if peers is None else listeners_for_brokers(broker.config),
            operations=operations,
        )
        broker.image.observers.append(self.shared.metadata_answers.picture_changed)
        self._tasks: dict[asyncio.Task[None], None] = {}

    def open(self, connection: "Connection") -> "KafkaSession":
        """Return a session for a new Kafka connection."""
        return KafkaSession(self, connection)

    def authentication(self, session: "KafkaSession", who: Identity) -> "Authentication":
        """Return the SASL authentication of a new connection; imported with the first one."""
        from headrace.frontends.kafka.authentication.authentication import Authentication

        return Authentication(session, self.broker, self.broker.config.sasl.get(who.listener), who)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a cold request's coroutine as a task, referenced until it ends."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    async def stop(self) -> None:
        """Cancel the running requests; their connections are closed."""
        self.shared.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class KafkaSession:
    """The requests of one connection. Implements `net.session.Session`."""

    __slots__ = (
        "_authentication",
        "_client_raw",
        "_commits",
        "_connection",
        "_context",
        "_dispatcher",
        "_pass",
        "_quotas",
        "_routes",
        "_runs",
    )

    def __init__(self, dispatcher: Dispatcher, connection: "Connection") -> None:
        self._dispatcher = dispatcher
        self._routes = dispatcher.routes
        self._pass = dispatcher.shared.request_pass
        self._connection = connection
        self._authentication: Authentication | None = None
        identity = Identity(connection.address, connection.listener, connection.principal)
        if connection.listener in dispatcher.authenticating:
            self._routes = dispatcher.staged_routes[Stage.FIRST]
            connection.authenticated = False
            self._authentication = dispatcher.authentication(self, identity)
        self._begin_runs(identity)
        self._quotas = dispatcher.broker.quotas
        self._client_raw = b""
        self._context = RequestContext(
            broker=dispatcher.broker,
            coordinators=dispatcher.coordinators,
            controller=dispatcher.controller,
            api_key=ApiKey.API_VERSIONS,
            version=0,
            client_id="",
            identity=identity,
            shared=dispatcher.shared,
            client_port=connection.port,
            offset_commits=self._commits,
            authentication=self._authentication,
        )

    def _begin_runs(self, identity: Identity) -> None:
        dispatcher = self._dispatcher
        self._runs = ProduceRuns(dispatcher.broker, self._pass, self._routes, identity)
        self._commits = OffsetCommitRuns(
            dispatcher.broker, dispatcher.coordinators, dispatcher.shared, self._routes
        )

    def authenticated(self, identity: Identity) -> None:
        """Serve all requests as `identity`, after a first or a repeated authentication."""
        self._routes = self._dispatcher.routes
        self._begin_runs(identity)
        context = self._context
        context.identity, context.offset_commits, context.throttle = identity, self._commits, None
        self._connection.known()

    def serve(self, stage: Stage) -> None:
        """Serve only the requests allowed in `stage`, before authentication or after expiry."""
        self._routes = self._dispatcher.staged_routes[stage]
        self._begin_runs(self._context.identity)
        self._context.offset_commits = self._commits

    def end(self) -> None:
        """Close the connection after the answers that are ready."""
        self._connection.close()

    def failed(self, seconds: float) -> None:
        """Handle no further request; the client's answer is delayed by so many seconds."""
        self._connection.failed(seconds)

    def frame(self, frame: memoryview) -> Body | Pending:
        """Handle one request; return its framed answer, or a pending one."""
        if self._quotas.active:
            return self._within_quotas(frame)
        return self._frame(frame)

    def _within_quotas(self, frame: memoryview) -> Body | Pending:
        """Handle one request and count it; throttle the client if it exceeds a quota."""
        if not self._routes:
            return self._unserved(frame)
        throttle = self._context.throttle
        if throttle is None:
            user = self._context.identity.principal.name
            throttle = self._context.throttle = Throttle(self._quotas, self._connection, user)
        header = parse_request(frame)
        route = self._routes.get(header.api_key << 16 | header.version)
        if route is None:
            return self._unserved(frame)
        throttle.begin(header.client_id, len(frame) if route.is_produce else None)
        now = self._pass.now
        began = now()
        answer = self._frame(frame)
        wait_ms = throttle.end(now() - began)
        if not wait_ms:
            return answer
        grouped = answer is None or isinstance(answer, CommitGroup)
        return told(route, answer, self._pass.group if grouped else None, wait_ms)

    def _frame(self, frame: memoryview) -> Body | Pending:
        try:
            code, correlation_id, client_size = _unpack_head(frame)
        except struct.error:
            if not self._routes:
                return self._unserved(frame)
            raise Malformed(f"{len(frame)} bytes are no request") from None
        route = self._routes.get(code)
        if route is None:
            return self._unserved(frame)
        at = _HEAD_BYTES
        if client_size > 0:
            at += client_size
            client = frame[_HEAD_BYTES:at]
            if client != self._client_raw or at > len(frame):
                self._learn_client(frame)
        elif client_size != len(self._client_raw) or client_size < 0:
            self._learn_client(frame)
        if route.flexible:
            if at < len(frame) and frame[at] == 0:
                at += 1
            else:
                at = parse_request(frame).body
        stats = route.stats
        stats.bytes_in += len(frame)
        stats.requests = count = stats.requests + 1
        began = _NOT_TIMED if count & _LATENCY_SAMPLE_MASK else self._pass.now()
        if route.in_turn:
            if self._connection.waits:
                stats.bytes_in -= len(frame)
                stats.requests -= 1
                raise InTurn
            if not route.hot:
                return self._cold(route, correlation_id, frame[at:])
        context = self._context
        context.api_key = route.key
        context.version = route.version
        present = self._pass
        group = present.group
        if group is not None and not (route.is_produce and group.fits(route)):
            present.group = None  # answers between two groups must be sent between them
        answer = route.handle(context, frame[at:])
        if type(answer) is bytes:
            present.group = None
            if began >= 0:
                stats.latency.add(self._pass.now() - began)
            stats.bytes_out += len(answer)
            if route.tagged_head:
                return pack_tagged(len(answer) + 5, correlation_id) + answer
            return pack_plain(len(answer) + 4, correlation_id) + answer
        if type(answer) is CommitGroup:
            return self._join(route, correlation_id, answer)
        present.group = None
        if isinstance(answer, Pending):
            answer.head = partial(self._late, route, correlation_id, began)
            return answer
        return self._late(route, correlation_id, began, answer)

    @staticmethod
    def _join(route: Route, correlation_id: int, group: CommitGroup) -> Body | Pending:
        """Add a Produce answer to its group; only the group's first takes a place in the queue."""
        group.fits(route)
        body = group.latest
        route.stats.bytes_out += len(body)
        if route.tagged_head:
            group.answers.append(pack_tagged(len(body) + 5, correlation_id) + body)
        else:
            group.answers.append(pack_plain(len(body) + 4, correlation_id) + body)
        return group if len(group.answers) == 1 else None

    def _late(self, route: Route, correlation_id: int, began: float, body: Body) -> Body:
        if began >= 0:
            route.stats.latency.add(self._pass.now() - began)
        return route.framed(correlation_id, body)

    def run(self, view: memoryview, at: int, filled: int) -> Run | None:
        """Handle a run of Produce requests that differ in batches, or OffsetCommits in offsets."""
        if self._quotas.active:
            return None
        if view[at + _KEY_AT] == ApiKey.OFFSET_COMMIT:
            return self._commits.take(view, at, filled)
        return self._runs.take(view, at, filled)

    def _mute(self, seconds: float) -> None:
        self._connection.mute(seconds)

    def _learn_client(self, frame: memoryview) -> None:
        """Decode the client id if it differs from that of the connection's last request."""
        header = parse_request(frame)
        self._context.client_id = header.client_id
        self._client_raw = (header.client_id or "").encode()

    def _unserved(self, frame: memoryview) -> Body:
        if self._authentication is not None and not self._routes:
            return self._authentication.raw(frame)
        header = parse_request(frame)
        if header.api_key == ApiKey.API_VERSIONS:
            # KIP-511: a newer client learns which version to use.
            body = api_versions.unsupported(self._dispatcher.apis)
            return pack_plain(len(body) + 4, header.correlation_id) + body
        name = f"API {header.api_key}"
        if header.api_key in ApiKey.__members__.values():
            name = ApiKey(header.api_key).name
        if self._routes is not self._dispatcher.routes:
            when = "before authentication"
            if self._routes is self._dispatcher.staged_routes[Stage.EXPIRED]:
                when = "behind the session's end (connections.max.reauth.ms, or its token)"
            raise Malformed(f"{name} v{header.version} {when}")
        raise Malformed(f"{name} v{header.version} is not served")

    def _cold(self, route: Route, correlation_id: int, body: memoryview) -> Body | Pending:
        from headrace.frontends.kafka.connection import cold_calls  # with the first cold request

        shared = self._context
        began = self._pass.now()  # each cold request is timed: there are few, and they cost more
        context = RequestContext(
            broker=shared.broker,
            coordinators=shared.coordinators,
            controller=shared.controller,
            api_key=route.key,
            version=route.version,
            client_id=shared.client_id,
            identity=shared.identity,
            shared=shared.shared,
            client_port=shared.client_port,
            client_software=shared.client_software,
            throttle=shared.throttle,
            mute=self._mute,
            authentication=shared.authentication,
            on_close=shared.on_close,
        )
        late = self._late if self._authentication is None else self._late_and_perhaps_last
        spawn = self._dispatcher.spawn
        answer = (
            cold_calls.call(route, context, body, spawn=spawn)
            if route.loaded
            else cold_calls.call_first(route, context, body, spawn=spawn, disk=shared.broker.disk)
        )
        if isinstance(answer, Pending):
            answer.alone = True
            answer.head = partial(late, route, correlation_id, began)
            return answer
        return late(route, correlation_id, began, answer)

    def _late_and_perhaps_last(
        self, route: Route, correlation_id: int, began: float, body: Body
    ) -> Body:
        if self._authentication is not None:
            self._authentication.answered()
        return self._late(route, correlation_id, began, body)

    def pass_done(self) -> Pending | None:
        """End the pass: its writes are done before its answers are sent."""
        return self._pass.end()

    def closed(self) -> None:
        """Release the connection's state, and call the callbacks for its end."""
        if self._authentication is not None:
            self._authentication.closed()
            # A reference cycle, which would be left to the garbage collector.
            self._authentication = self._context.authentication = None
        on_close = self._context.on_close
        while on_close:
            on_close.popitem()[1]()
