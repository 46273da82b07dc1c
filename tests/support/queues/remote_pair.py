"""A queue's leader and a home of its channels in one process, with the network between them.

All messages cross as bytes. `Network` keeps them in flight: `deliver_all` passes them on in order,
and a test may pass on single ones, repeat or drop them.
"""

from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from headrace.model.nouns import BrokerId
from headrace.queues.engine.queue_host import QueueHost
from headrace.queues.port import Queue
from headrace.remote_queues.encoding import call_of, encoded, event_of
from headrace.remote_queues.events import Poll
from headrace.remote_queues.home.home_session import HomeSession
from headrace.remote_queues.home.remote_queue import RemoteQueue
from headrace.remote_queues.leader.queue_sessions import QueueSessions, SessionName
from headrace.remote_queues.messages import QueueCalls
from headrace.wire.kafka.queue_messages import CALLS, EVENTS
from headrace.wire.schema import MessageSchema
from tests.support.queues.port_place import PortPlace

HOME = BrokerId(2)
EPOCH = 7
POLLS_MAX = 2
ROUNDS_MAX = 3000
"""Requests and answers after which two brokers without clients should be silent."""
ENDED, FINE = 1, 0


class InFlight(NamedTuple):
    """A message that is under way, and its receiver."""

    data: bytes
    receive: Callable[[bytes], None]


class Network:
    """The connections of one session at a time; each queue of messages is one direction."""

    def __init__(self, sessions: QueueSessions) -> None:
        self.sessions = sessions
        self.session = HomeSession(lambda: None)
        self.name = SessionName(EPOCH, 0)
        self.lines: dict[str, deque[InFlight]] = {
            line: deque()
            for line in ("calls", "calls answered", "polls", "polls answered", "earlier")
        }
        self.counts: Counter[str] = Counter()
        """Number of calls and events of each kind that were sent."""
        self._polling = 0

    def begin(self) -> HomeSession:
        """Begin a session; messages of those before may still arrive, on a line of their own."""
        under_way = [message for flying in self.lines.values() for message in flying]
        for flying in self.lines.values():
            flying.clear()
        self.lines["earlier"].extend(under_way)
        self.name = SessionName(EPOCH, self.name.number + 1)
        self.session = HomeSession(lambda: None)
        self._polling = 0
        return self.session

    # Sending

    def send(self) -> bool:
        """Send what the home has to send; return whether there was any."""
        sent = False
        while not self.session.ended and (request := self.session.take_calls()) is not None:
            self._send_calls(*request)
            sent = True
        while not self.session.ended and self._polling < POLLS_MAX:
            self._polling += 1
            self._send_poll(self.session.poll())
            sent = True
        return sent

    def _send_calls(self, first: int, calls: Any) -> None:
        session, name, sessions = self.session, self.name, self.sessions
        fields = {"first": first, "calls": [encoded(call) for call in calls]}
        self.counts.update(type(call).__name__ for call in calls)

        def receive(data: bytes) -> None:
            found = _decode(CALLS[0], data)
            asked = QueueCalls(found["first"], [call_of(each) for each in found["calls"]])
            sessions.take(HOME, name, asked, taken)

        def taken(expected: int | None) -> None:
            answer = {"errorCode": ENDED if expected is None else FINE, "expected": expected or 0}
            self._fly("calls answered", CALLS[1], answer, answered)

        def answered(data: bytes) -> None:
            found = _decode(CALLS[1], data)
            if found["errorCode"] == ENDED:
                session.end()
            else:
                session.calls_answered(found["expected"])

        self._fly("calls", CALLS[0], _named(name) | fields, receive)

    def _send_poll(self, poll: Poll) -> None:
        session, name, sessions = self.session, self.name, self.sessions

        def receive(data: bytes) -> None:
            found = _decode(EVENTS[0], data)
            asked = Poll(found["expected"], found["again"], found["room"])
            sessions.poll(HOME, name, asked, send_events)

        def send_events(events: Any) -> None:
            first, found = (0, ()) if events is None else events
            self.counts.update(type(event).__name__ for event in found)
            answer = {
                "errorCode": ENDED if events is None else FINE,
                "first": first,
                "events": [encoded(event) for event in found],
            }
            self._fly("polls answered", EVENTS[1], answer, polled)

        def polled(data: bytes) -> None:
            found = _decode(EVENTS[1], data)
            if session is self.session:
                self._polling = max(self._polling - 1, 0)
            if found["errorCode"] == ENDED:
                session.end()
            else:
                session.polled(found["first"], [event_of(each) for each in found["events"]])

        fields = {"expected": poll.expected, "again": poll.again, "room": poll.room}
        self._fly("polls", EVENTS[0], _named(name) | fields, receive)

    def _fly(
        self, line: str, schema: MessageSchema, fields: Mapping[str, Any], receive: Any
    ) -> None:
        self.lines[line].append(InFlight(schema.encode(fields, 0), receive))

    # Arriving

    def deliver(self, line: str, at: int = 0, *, keep: bool = False) -> None:
        """Let a message of a line arrive; `keep`: it arrives once more, later."""
        flying = self.lines[line]
        if at < len(flying):
            message = flying[at]
            if not keep:
                del flying[at]
            message.receive(message.data)

    def deliver_all(self) -> bool:
        """Let all messages arrive that are under way; return whether there were any."""
        some = False
        for line, flying in self.lines.items():
            for _ in range(len(flying)):
                self.deliver(line)
                some = True
        return some

    def lose_connection(self, *, late: bool = False) -> None:
        """Drop all messages that are under way; the session goes on over a new connection.

        `late`: they still arrive, beside those of the new connection.
        """
        for flying in self.lines.values():
            if not late:
                flying.clear()
        self._polling = 0
        if not self.session.ended:
            self.session.connection_lost()


def _named(name: SessionName) -> dict[str, Any]:
    return {"brokerId": HOME, "brokerEpoch": name.epoch, "session": name.number, "leaderEpoch": 1}


def _decode(schema: MessageSchema, data: bytes) -> dict[str, Any]:
    return schema.decode(data, 0)


class RemotePlace(PortPlace):
    """A queue whose channels are on another broker."""

    def __init__(self, arguments: dict[str, object] | None = None, *, durable: bool) -> None:
        super().__init__(arguments, durable=durable)
        led = self._hosts
        self.sessions = QueueSessions(led.hosts, led.deadlines, led.turns.soon)
        self.network = Network(self.sessions)
        self.homes = self.new_hosts(None)
        self.home = self.homes.hosts["/"]
        own = self.leader.queues["q"]
        self.remote = RemoteQueue(
            "/", own.declared, own.title, self.world.clock, touched=self.home.touched
        )
        self.home.targets["q"] = self.remote
        self.begin()

    def begin(self) -> None:
        """Begin a session."""
        self.remote.begin(self.network.begin())

    @property
    def host(self) -> QueueHost:
        return self.home

    @property
    def queue(self) -> Queue:
        return self.remote

    def run_leader(self) -> None:
        """End a pass of the leader."""
        super().run()

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.world.clock.advance(seconds)
        self.world.settle()

    def run(self) -> None:
        """End a pass of both brokers, and let all messages arrive."""
        for _ in range(ROUNDS_MAX):
            if not self.network.send() | self.network.deliver_all():
                break
            self.run_leader()
            self.homes.turns.run()
        else:
            raise AssertionError("the two brokers send messages without end")
        self.run_leader()
        self.homes.turns.run()
