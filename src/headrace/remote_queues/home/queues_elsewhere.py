"""`QueuesElsewhere`: the queues of this broker's channels that other brokers lead.

    NO LEADER KNOWN --look--> IN SESSION with the leader --left, another one--> NO LEADER KNOWN
                    <--after a pause, while the leader refuses or is not registered--+

A leader that is elected again goes on, with the session and the consumers in it. If it has not led
the queue in between, it says so in the session.

A queue that this broker begins to lead itself stays for the consumers that it has: its session is
one with this broker. Channels find the hosted queue from then on.
"""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import Protocol

from headrace.model.errors import ApiError
from headrace.model.nouns import BrokerId
from headrace.ports.backoff import backoff_seconds
from headrace.ports.callbacks import Done
from headrace.ports.clock import Clock, Timer
from headrace.queue_stores.log.queue_logs import Crowded
from headrace.queues.model.declarations import DeclaredQueue
from headrace.queues.port import NO_HANDOVER, Handover, Queue
from headrace.queues.queue_names import QueueName
from headrace.remote_queues.home.home_session import HomeSession
from headrace.remote_queues.home.leader_link import FirstUse
from headrace.remote_queues.home.remote_queue import RemoteQueue
from headrace.remote_queues.home.replica_readers import Replica

IDLE_SECONDS = 600.0
"""Seconds after which a queue that nothing has used since is closed: each takes some 5 KB here, and
more at its leader. Its next use opens it again."""
SWEEPS = 60
"""Number of looks in `IDLE_SECONDS`, each at the queues that were not looked at for longest."""
PAUSE_SECONDS_MIN = 0.05
PAUSE_SECONDS_MAX = 1.0


class Leaders(Protocol):
    """The leaders of queues, and the sessions with them. Implemented by `server.cluster`."""

    def leader_of(self, name: QueueName) -> BrokerId | None:
        """Return a queue's leader as the metadata image has it; None: it has none."""

    def is_unused(self, name: QueueName) -> bool:
        """Return whether a queue was never used: no broker leads it, and it has no message."""

    def is_down(self, name: QueueName) -> bool:
        """Return whether the only broker with a durable classic queue's messages is down."""

    def use(self, vhost: str, queue: DeclaredQueue) -> None:
        """Have the controller make a broker lead a queue, unless one does."""

    def session(self, leader: BrokerId) -> HomeSession | None:
        """Return the session with a leader; None: it is not registered."""

    def replica(self, name: QueueName) -> Replica | None:
        """Return the replicas here of a stream, from which it serves consumers; None: no stream."""

    def new_producer_id(self, give: Done[int | ApiError]) -> None:
        """Call `give` with a producer id of the controller that nothing else uses."""


class _Known:
    """A queue that is led elsewhere, and the leader whose session it uses."""

    def __init__(self, remote: RemoteQueue, now: float) -> None:
        self.remote = remote
        self.counts = remote.use.counts
        self.used_at = now
        """Monotonic seconds of the last look at which it was in use, or `counts` had changed."""
        self.leader: BrokerId | None = None
        self.identified = False
        """Whether a producer id has been asked for."""
        self.failures = 0
        self.timer: Timer | None = None

    def is_used(self, now: float) -> bool:
        """Tell whether the queue is in use, or was used since the last call; note the time."""
        use = self.remote.use
        used = use.counts != self.counts or not use.is_idle
        if used:
            self.counts, self.used_at = use.counts, now
        return used


class QueuesElsewhere:
    """The queues of all vhosts that other brokers lead. Called on the deciding thread."""

    def __init__(
        self,
        leaders: Leaders,
        clock: Clock,
        crowded: list[Crowded],
        touched: Callable[[str, Iterable[Queue]], None],
        closed: Callable[[QueueName], None] = lambda name: None,
    ) -> None:
        """Begin without queues.

        `crowded`: `QueueLogs.crowded`. `touched` has hosted queues of a vhost deliver soon.
        `closed` has channels forget a queue that was idle.
        """
        self._leaders = leaders
        self._clock = clock
        self._crowded = crowded
        self._touched = touched
        self._closed = closed
        self._known: dict[QueueName, _Known] = {}
        """By the time of the last look for queues that are idle."""
        self._sweep_timer: Timer | None = None

    def open(
        self,
        vhost: str,
        queue: DeclaredQueue,
        title: str,
        handover: Handover = NO_HANDOVER,
    ) -> RemoteQueue:
        """Return a queue for this broker's channels, in a session as soon as its leader is known.

        A queue that is open already is returned, unless it was declared again since. `handover`: of
        this broker, which has led the queue until now.
        """
        name = QueueName(vhost, queue.name)
        known = self._known.get(name)
        if known is not None and known.remote.declared is queue:
            if not handover.is_empty:
                known.remote.leave()
                known.remote.adopt(handover)
            return known.remote
        self.close_queue(name)
        remote = RemoteQueue(
            vhost,
            queue,
            title,
            self._clock,
            moves=queue.durable,
            producer_id=None if queue.durable else -1,
            crowded=self._crowded,
            touched=partial(self._touched, vhost),
            left=partial(self._left, name),
            renew=partial(self._identify, name),
            first_use=self._first_use(name, queue) if queue.durable else None,
            replica=self._leaders.replica(name),
        )
        self._known[name] = _Known(remote, self._clock.monotonic())
        self._sweep_later()
        remote.adopt(handover)
        self.look(name)
        return remote

    def _first_use(self, name: QueueName, queue: DeclaredQueue) -> FirstUse:
        leaders = self._leaders
        return FirstUse(partial(leaders.is_unused, name), partial(leaders.use, name.vhost, queue))

    @property
    def queues(self) -> list[RemoteQueue]:
        """All open queues."""
        return [known.remote for known in self._known.values()]

    def look(self, name: QueueName) -> None:
        """Use a session with the queue's present leader: it may have changed."""
        known = self._known.get(name)
        if known is None:
            return
        if self._leaders.is_down(name):
            known.leader = None
            if not known.remote.is_down:
                known.remote.go_down()  # calls `_left`
            else:
                self._look_later(name, known)
            return
        known.remote.is_down = False
        known.remote.consumers.serve_here()
        leader = self._leaders.leader_of(name)
        if known.remote.in_session:
            if leader is None or leader == known.leader:
                return
            known.leader = None
            known.remote.leave()  # calls `_left`
        if leader is None and self._leaders.is_unused(name):
            if known.remote.use.needs_leader:  # the topic of the queue before it existed until now
                self._leaders.use(name.vhost, known.remote.declared)
            return  # the metadata image tells of its leader
        session = None if leader is None else self._leaders.session(leader)
        if session is None:
            self._look_later(name, known)
            return
        if known.timer is not None:
            known.timer.cancel()
            known.timer = None
        known.leader = leader
        if known.remote.declared.durable and not known.identified:
            known.identified = True
            self._identify(name)
        known.remote.begin(session)

    def dismiss(self, name: QueueName) -> None:
        """Cancel the consumers of a stream that this broker serves, if any."""
        known = self._known.get(name)
        if known is not None:
            known.remote.consumers.dismiss()

    def _left(self, name: QueueName) -> None:
        """Look for the leader after a pause: a session was lost, or its leader is another one."""
        known = self._known.get(name)
        if known is not None:
            if known.remote.use.was_opened:
                known.failures = 0
            self._look_later(name, known)

    def _look_later(self, name: QueueName, known: _Known) -> None:
        if known.timer is None:
            known.failures += 1
            pause = backoff_seconds(known.failures, PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX)
            known.timer = self._clock.call_later(pause, partial(self._look_again, name, known))

    def _look_again(self, name: QueueName, known: _Known) -> None:
        known.timer = None
        if self._known.get(name) is known:
            self.look(name)

    def _identify(self, name: QueueName) -> None:
        """Have the controller give the queue a producer id; ask again after an error."""
        known = self._known.get(name)
        if known is None:
            return

        def given(producer_id: int | ApiError) -> None:
            if isinstance(producer_id, ApiError):
                self._clock.call_later(PAUSE_SECONDS_MAX, partial(self._identify, name))
            else:
                known.remote.identify(producer_id)

        self._leaders.new_producer_id(given)

    def _sweep_later(self) -> None:
        if self._sweep_timer is None and self._known:
            pause = IDLE_SECONDS / SWEEPS
            self._sweep_timer = self._clock.call_later(pause, self._sweep)

    def _sweep(self) -> None:
        """Close idle queues among those that were not looked at for longest."""
        self._sweep_timer = None
        now = self._clock.monotonic()
        for name in list(islice(self._known, len(self._known) // SWEEPS + 1)):
            known = self._known.pop(name)
            if known.is_used(now) or now - known.used_at < IDLE_SECONDS:
                self._known[name] = known  # behind the others
            else:
                if known.timer is not None:
                    known.timer.cancel()
                known.remote.use.end()
                known.remote.close(deleted=False)
                self._closed(name)
        self._sweep_later()

    def close_queue(self, name: QueueName, *, deleted: bool = True) -> None:
        """End a queue that is deleted, or as the broker stops: its consumers are cancelled."""
        known = self._known.pop(name, None)
        if known is not None:
            if known.timer is not None:
                known.timer.cancel()
            known.remote.close(deleted=deleted)

    def close(self) -> None:
        """End all queues: the broker stops."""
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        for name in tuple(self._known):
            self.close_queue(name, deleted=False)
