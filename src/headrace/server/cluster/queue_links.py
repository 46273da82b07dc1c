"""`QueueLinks`: this broker's sessions with the leaders of its clients' queues, and their requests.

    HomeSession ── calls ──► conversation, 5 requests in flight ──► leader
                ◄─ events ── conversation, 2 long polls         ◄──

A request that fails loses the connection: what was not answered is sent again after a pause, to the
same registration of the leader. The session ends when the leader has ended it, or with that
registration; the next one begins when it is asked for.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from headrace.broker.broker import Broker
from headrace.client.calls.call import check
from headrace.client.client import BACKOFF_SECONDS_MAX, BACKOFF_SECONDS_MIN
from headrace.client.transport.peer import Peer, fixed
from headrace.client.transport.peer_clients import PeerClients
from headrace.client.transport.port import Address
from headrace.cluster.peers.conversation import Conversation, Limits, Run, one_request
from headrace.cluster.peers.peer_call import Fields, PeerCall
from headrace.cluster.peers.registrations import RegisteredPeers
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId
from headrace.ports.backoff import backoff_seconds
from headrace.remote_queues.calls import REQUESTS_MAX
from headrace.remote_queues.encoding import encoded, event_of
from headrace.remote_queues.events import Poll
from headrace.remote_queues.home.home_session import HomeSession
from headrace.remote_queues.leader.queue_sessions import SessionName
from headrace.remote_queues.messages import Event, QueueCalls
from headrace.wire.kafka.api import ApiKey

POLLS_MAX = 2
"""Long polls in flight: the next one waits at the leader while an answer is under way."""
REQUEST_SECONDS_MAX = 5.0
"""Seconds after which a request without an answer has failed."""
STILL_SECONDS_MAX = 0.9
"""Seconds for which this process may stand still. After more, sessions end with the events that
were under way: their leaders end them, too (`queue_sessions.LOST_SECONDS`), and may have delivered
these to others."""
Polled = tuple[int, Sequence[Event]]
Guarded = Callable[[Callable[[], bool], Callable[[], None]], None]
"""Calls its second argument; what that sends to clients leaves only while the first holds."""


class RunningProcess(Protocol):
    """The time for which this process does not run. Implemented by `LeasePings`."""

    @property
    def boot_seconds(self) -> Callable[[], float]:
        """Returns seconds of the boot-time clock."""

    def seconds_since_tick(self) -> float:
        """Return for how long the process has stood still, unless `stood_still` was called."""


class _CallsOf(NamedTuple):
    name: SessionName
    calls: QueueCalls


class _PollOf(NamedTuple):
    name: SessionName
    poll: Poll


class QueueLinks:
    """Sessions with leaders, one for each registration. Called on the deciding thread."""

    def __init__(
        self,
        broker: Broker,
        listener: str,
        clients: PeerClients,
        run: Run,
        epoch: Callable[[], int],
        process: "RunningProcess",
        guarded: Guarded,
    ) -> None:
        """Create without sessions.

        `listener`: name of the inter-broker listener; `run` starts a task on the event loop;
        `epoch` returns the epoch of this broker's registration; `guarded` delivers to clients.
        """
        self._broker = broker
        self._clients = clients
        self._run = run
        self._epoch = epoch
        self._process = process
        self._guarded = guarded
        self._sessions = 0
        self._peers = RegisteredPeers(broker.image, listener, self._begin)

    def session(self, leader: BrokerId) -> HomeSession | None:
        """Return the session with a leader, a new one if the last has ended.

        None: the broker is not registered, or is suspected to be dead.
        """
        link = None if self._is_suspected(leader) else self._peers.to(leader)
        return None if link is None else link.session(self._broker.image.brokers[leader].epoch)

    def _is_suspected(self, leader: BrokerId) -> bool:
        image = self._broker.image
        info = image.brokers.get(leader)
        return info is not None and image.suspects.get(leader) == info.epoch

    def end_suspected(self) -> None:
        """End the sessions with brokers that are suspected to be dead, not only with their
        registrations: publishes to transient queues are refused, and their consumers cancelled."""
        self._end(filter(self._is_suspected, self._broker.image.suspects))

    def _end(self, leaders: Iterable[BrokerId]) -> None:
        for leader in leaders:
            link = self._peers.to(leader)
            if link is not None:
                link.end_session()

    def stood_still(self, seconds: float) -> None:
        """End all sessions if this process stood still for longer than their leaders wait."""
        if seconds > STILL_SECONDS_MAX:
            self._end(self._broker.image.brokers)

    def close(self) -> None:
        """End all sessions and close their connections."""
        self._peers.close()

    def _begin(self, address: Address) -> "QueueLink":
        return QueueLink(
            self._broker, address, self._clients, self._run, self._next_name, self._process,
            self._guarded,
        )  # fmt: skip

    def _next_name(self) -> SessionName:
        self._sessions += 1
        return SessionName(self._epoch(), self._sessions)


class QueueLink:
    """The conversations with one registration of a leader, and the present session."""

    def __init__(
        self,
        broker: Broker,
        address: Address,
        clients: PeerClients,
        run: Run,
        next_name: Callable[[], SessionName],
        process: "RunningProcess",
        guarded: Guarded,
    ) -> None:
        """Create without a session. `next_name` names this broker's next session."""
        self._own = broker.broker_id
        self._clock = broker.clock
        self._next_name = next_name
        self._process = process
        self._guarded = guarded
        self._calls: Conversation[_CallsOf, int] = Conversation(
            _peer(clients, address, f"broker-{self._own}-queue-calls"),
            one_request(self._calls_request),
            run,
            limits=Limits(requests_max=REQUESTS_MAX, questions_max=1),
        )
        self._events: Conversation[_PollOf, Polled] = Conversation(
            _peer(clients, address, f"broker-{self._own}-queue-events"),
            one_request(self._poll_request),
            run,
            limits=Limits(requests_max=POLLS_MAX, questions_max=1),
        )
        self._session: HomeSession | None = None
        self._name = SessionName(0, 0)
        self._leader_epoch = -1
        self._connection = 0
        """Number of the present connection: answers and failures of earlier ones are ignored."""
        self._polling = 0
        self._failures = 0
        self._due = False
        self._pausing = False

    def session(self, leader_epoch: int) -> HomeSession:
        """Return the present session, or begin one if the last has ended.

        `leader_epoch`: the epoch of the leader's registration; -1: not known.
        """
        self._leader_epoch = leader_epoch
        if self._session is None or self._session.ended:
            self._name = self._next_name()
            self._connection += 1
            self._polling = 0
            self._session = HomeSession(self._soon)
            self._soon()
        return self._session

    def end_session(self) -> None:
        """End the present session: the leader does not answer any more."""
        self._connection += 1
        if self._session is not None:
            self._session.end()

    def close(self) -> None:
        """End the session: the leader's registration has ended."""
        self.end_session()
        self._calls.close()
        self._events.close()

    def _soon(self) -> None:
        """Send what there is at the end of the loop's turn."""
        if not self._due and not self._pausing:
            self._due = True
            self._clock.call_later(0, self._send)

    def _send(self) -> None:
        self._due = self._pausing = False
        session = self._session
        if session is None or session.ended:
            return
        while (calls := session.take_calls()) is not None:
            asked = _CallsOf(self._name, QueueCalls(*calls))
            self._calls.ask(asked, partial(self._taken, self._connection))
        while self._polling < POLLS_MAX and not session.ended:
            self._polling += 1
            poll = _PollOf(self._name, session.poll())
            self._events.ask(poll, partial(self._polled, self._connection))

    def _taken(self, connection: int, answer: int | ApiError) -> None:
        session = self._answered(connection, answer)
        if session is not None and not isinstance(answer, ApiError):
            session.calls_answered(answer)
            self._soon()

    def _polled(self, connection: int, answer: Polled | ApiError) -> None:
        process = self._process
        if process.seconds_since_tick() > STILL_SECONDS_MAX:  # `stood_still` is not called yet
            self.end_session()
            return
        session = self._answered(connection, answer)
        if session is not None and not isinstance(answer, ApiError):
            self._polling -= 1
            until = process.boot_seconds() + STILL_SECONDS_MAX
            self._guarded(lambda: process.boot_seconds() < until, partial(session.polled, *answer))
            self._soon()

    def _answered(self, connection: int, answer: object) -> HomeSession | None:
        """Return the session that an answer is for; act on a failure. None: an earlier one's."""
        session = self._session
        if connection != self._connection or session is None or session.ended:
            return None
        if not isinstance(answer, ApiError):
            self._failures = 0
            return session
        self._connection += 1
        self._polling = 0
        if answer.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            session.end()
            return None
        session.connection_lost()
        self._failures += 1
        self._pausing = True
        pause = backoff_seconds(self._failures, BACKOFF_SECONDS_MIN, BACKOFF_SECONDS_MAX)
        self._clock.call_later(pause, self._send)
        return None

    # Requests

    def _calls_request(self, questions: Sequence[_CallsOf]) -> PeerCall[Sequence[int]]:
        name, (first, calls) = questions[0]
        fields = {"first": first, "calls": [encoded(call) for call in calls]}
        return PeerCall(ApiKey.QUEUE_CALLS, self._named(name) | fields, _expected)

    def _poll_request(self, questions: Sequence[_PollOf]) -> PeerCall[Sequence[Polled]]:
        name, poll = questions[0]
        return PeerCall(ApiKey.QUEUE_EVENTS, self._named(name) | poll._asdict(), _events)

    def _named(self, name: SessionName) -> dict[str, object]:
        return {
            "brokerId": self._own,
            "brokerEpoch": name.epoch,
            "session": name.number,
            "leaderEpoch": self._leader_epoch,
        }


def _peer(clients: PeerClients, address: Address, client_id: str) -> Peer:
    client = clients.make(client_id, request_timeout_seconds=REQUEST_SECONDS_MAX)
    return Peer(client, fixed(address))


def _expected(response: Fields) -> Sequence[int]:
    check(response["errorCode"])
    return [response["expected"]]


def _events(response: Fields) -> Sequence[Polled]:
    check(response["errorCode"])
    return [(response["first"], [event_of(event) for event in response["events"]])]
