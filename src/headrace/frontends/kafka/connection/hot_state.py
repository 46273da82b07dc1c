"""State that the hot handlers of one broker share between requests."""

from collections.abc import Callable, Coroutine
from functools import cached_property
from typing import TYPE_CHECKING, Any

from headrace.frontends.kafka.connection.api import Api
from headrace.frontends.kafka.connection.request_pass import RequestPass
from headrace.frontends.kafka.metadata.kept_answers import KeptAnswers
from headrace.ports.clock import Clock, Random
from headrace.ports.deadlines import Deadlines

if TYPE_CHECKING:
    from headrace.broker.gathered_writes import GatheredWrites
    from headrace.cluster.peers.peer_port import PeerPort
    from headrace.frontends.kafka.fetch.fetch_sessions import FetchSessions
    from headrace.operations.registry import Operations


class Shared:
    """Deadlines, fetch sessions, the request pass and cached Metadata answers of one broker."""

    def __init__(
        self,
        clock: Clock,
        random: Random,
        fetch_sessions_max: int,
        apis: tuple[Api, ...] = (),
        *,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        writes: "GatheredWrites | None" = None,
        peers: "PeerPort | None" = None,
        broker_listeners: frozenset[str] | None = None,
        operations: "Operations | None" = None,
    ) -> None:
        """Create the shared state.

        `peers` and `broker_listeners` are None if there are no other brokers.
        """
        self.now = clock.monotonic
        """Monotonic seconds, for request times."""
        self.spawn = spawn
        """Runs a coroutine for a hot handler that cannot answer at once."""
        self.apis = apis
        """The APIs that are served and advertised to clients."""
        self.peers = peers
        """Executes requests of other brokers; None: there are no other brokers."""
        self.broker_listeners = broker_listeners
        """Listeners on which requests of other brokers are accepted."""
        self.operations = operations
        """Operations of other protocols; None: no other protocol is served."""
        self.deadlines = Deadlines(clock)
        self.request_pass = RequestPass(self.deadlines, writes, self.now)
        """The pass in which hot handlers append."""
        self._for_sessions = clock, random, fetch_sessions_max
        self.metadata_answers = KeptAnswers()

    @cached_property
    def fetch_sessions(self) -> "FetchSessions":
        """The incremental fetch sessions; their code is imported with the first Fetch."""
        from headrace.frontends.kafka.fetch.fetch_sessions import FetchSessions

        return FetchSessions(*self._for_sessions)

    def close(self) -> None:
        """End the deadlines of all waiting requests: the broker stops."""
        self.deadlines.close()
