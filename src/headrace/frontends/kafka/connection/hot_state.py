"""What the hot handlers of one broker keep between requests."""

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from headrace.frontends.kafka.connection.api import Api
from headrace.frontends.kafka.connection.request_pass import RequestPass
from headrace.frontends.kafka.fetch.fetch_sessions import FetchSessions
from headrace.frontends.kafka.metadata.kept_answers import KeptAnswers
from headrace.ports.clock import Clock, Random
from headrace.ports.deadlines import Deadlines

if TYPE_CHECKING:
    from headrace.broker.gathered_writes import GatheredWrites
    from headrace.cluster.peers.peer_port import PeerPort
    from headrace.operations.registry import Operations


class Shared:
    """Deadlines, fetch sessions, and Metadata answers made already."""

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
        """`peers` and `broker_listeners`: None where there are no other brokers."""
        self.now = clock.monotonic
        """Seconds, for how long requests take."""
        self.spawn = spawn
        """Runs what a hot handler cannot do at once."""
        self.apis = apis
        """What clients are served, and told so."""
        self.peers = peers
        """What other brokers may have done here."""
        self.broker_listeners = broker_listeners
        """Where other brokers are believed to be such."""
        self.operations = operations
        """Those of other protocols; None where no other is spoken."""
        self.deadlines = Deadlines(clock)
        self.request_pass = RequestPass(self.deadlines, writes, self.now)
        """The one that hot handlers append in."""
        self.fetch_sessions = FetchSessions(clock, random, fetch_sessions_max)
        self.metadata_answers = KeptAnswers()

    def close(self) -> None:
        """Wait for nothing any more."""
        self.deadlines.close()
