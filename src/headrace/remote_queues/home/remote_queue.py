"""A queue that another broker leads, as the channels of this broker see it.

    NO SESSION --begin()--> IN SESSION --lost()--> NO SESSION
    publish: refused        calls to the leader    publishes unstored, consumers cancelled

A queue that `moves` has another leader then. Its consumers stay: `begin` names to the new leader
the positions that their channels hold, adds them again, and repeats the settlements that the former
leader was not known to have taken.

A delivery's position, as channels know it, is the leader's position and above it the number of the
consumer, which is never used again: a settlement for a consumer that has ended with its session is
dropped.
"""

from collections.abc import Callable, Sequence

from headrace.model.errors import HeadraceError
from headrace.ports.clock import Clock
from headrace.queues.model.declarations import DeclaredQueue
from headrace.queues.port import (
    ConsumeDone,
    Consumer,
    Deliveries,
    Disposition,
    Getter,
    Got,
    PurgeDone,
    QueueInfo,
    Subscriber,
    UnstoredDone,
)
from headrace.queues.queue_settings import Published, QueueSettings
from headrace.queues.refusals import QUEUE, RefusalKind, Refused
from headrace.queues.stores.log.log_writing import Crowded
from headrace.remote_queues.home.home_session import HomeSession
from headrace.remote_queues.home.remote_consumer import RemoteConsumer
from headrace.remote_queues.home.remote_publishes import (
    BATCH_BYTES_MAX,
    WAITING_BYTES_MAX,
    RemotePublishes,
)
from headrace.remote_queues.home.remote_questions import RemoteQuestions
from headrace.remote_queues.messages import (
    POSITION_BYTES,
    Cancel,
    Cancelled,
    Consume,
    Consuming,
    Counted,
    Credit,
    Delivered,
    Event,
    Get,
    GotMessage,
    Hold,
    Open,
    PurgeEnded,
    Settle,
    Stored,
)

_POSITION_BITS = 64
_POSITION_MASK = (1 << _POSITION_BITS) - 1


class RemoteQueue:
    """A queue on another broker. Implements `port.Queue`."""

    confirms_late = confirms_transient = True

    def __init__(
        self,
        vhost: str,
        queue: DeclaredQueue,
        title: str,
        clock: Clock,
        *,
        moves: bool = False,
        producer_id: int = -1,
        batch_bytes_max: int = BATCH_BYTES_MAX,
        crowded: list[Crowded] | None = None,
    ) -> None:
        """Create the queue without a session: no call is answered before `begin`.

        `moves`: another broker leads the queue once its leader is lost. `producer_id`: this
        broker's, by which logs recognise publishes that are sent again; -1: none.
        `batch_bytes_max`: bytes of messages that the queue's log takes in one batch. `crowded`:
        list of queues whose publishers are to be paused; None: they are not.
        """
        self.name = queue.name
        self.title = title
        self.failure: str | None = None
        self.settings: QueueSettings = queue.settings
        self.consumer_timeout_ms = queue.settings.consumer_timeout_ms
        self._vhost = vhost
        self._clock = clock
        self._session: HomeSession | None = None
        self._queue = 0
        """The queue's number in its session."""
        self._next_key = 0
        """Number of the next consumer or request, over all sessions."""
        self._gets_key = 0
        """Number under which messages of basic.get are held."""
        self._moves = moves
        self._held: dict[int, set[int]] = {}
        """Unacknowledged positions by the number of their consumer."""
        self._unsent: list[tuple[int, Disposition, list[int]]] = []
        """Settlements that no leader is known to have taken, while there is no session."""
        crowded = [] if crowded is None else crowded
        self._publishes = RemotePublishes(clock, crowded, producer_id, batch_bytes_max)
        self._consumers: dict[int, RemoteConsumer] = {}
        self._keys: dict[Consumer, int] = {}
        self._consuming: dict[int, ConsumeDone] = {}
        self._getters: dict[int, Getter] = {}
        self._questions = RemoteQuestions(clock)

    # Sessions

    def begin(self, session: HomeSession) -> None:
        """Use a session with the queue's leader from now on; the one before has ended."""
        self._session = session
        self._queue = session.add(self)
        session.call(Open(self._queue, self._vhost, self.name))
        if not self._gets_key:
            self._gets_key = self._key()
            self._held[self._gets_key] = set()
        unsent, self._unsent = self._unsent, []
        held = {key: {*positions} for key, positions in self._held.items()}
        for key, _, positions in unsent:
            held.setdefault(key, set()).update(positions)
        for key, some in held.items():
            if some:
                session.call(Hold(self._queue, key, sorted(some)))
        for remote in self._consumers.values():
            self._add(session, remote)
        for key, disposition, positions in unsent:
            session.call(Settle(self._queue, key, disposition, positions))
        self._publishes.release(session, self._queue)

    def lost(self, session: HomeSession) -> None:
        """Report what the ended session has not answered; cancel the consumers, or keep them.

        Implements `SessionQueue`.
        """
        self._session = None
        self._publishes.lost(keep=self._moves)
        refused = self._unreachable()
        if self._moves:
            self._keep_settlements(session)
        else:
            self._cancel_all(refused)
        getters, self._getters = self._getters, {}
        for getter in getters.values():
            getter.done(refused)
        self._questions.lost(refused)

    def _keep_settlements(self, session: HomeSession) -> None:
        """Note the settlements of this queue that the leader is not known to have taken."""
        for call in session.calls.unanswered():
            if isinstance(call, Settle) and call.queue == self._queue:
                self._keep(call.consumer, call.disposition, call.positions)

    def _keep(self, key: int, disposition: Disposition, positions: list[int]) -> None:
        """Note a settlement for the next leader, where a message that no channel holds is ready.

        So a requeue needs no call; the former leader may have delivered its message since.
        """
        if disposition is not Disposition.REQUEUED:
            self._unsent.append((key, disposition, positions))

    def _cancel_all(self, refused: Refused) -> None:
        """Cancel the consumers; what their channels hold is settled without effect."""
        self._held.clear()
        self._gets_key = 0
        consuming, self._consuming = self._consuming, {}
        consumers, self._consumers = self._consumers, {}
        self._keys.clear()
        for key, remote in consumers.items():
            self._end(remote)
            if key in consuming:
                consuming[key](refused)
            else:
                remote.consumer.channel.cancelled(remote.consumer)

    def _in_session(self) -> HomeSession:
        """Return the session; raise Refused without one. No publish call is extended any more."""
        self._publishes.close_call()
        if self._session is None:
            raise self._unreachable()
        return self._session

    def _unreachable(self) -> Refused:
        text = f"the leader of {self.title} is down or cannot be reached"
        return Refused(RefusalKind.NOT_FOUND, QUEUE, text)

    def _key(self) -> int:
        self._next_key += 1
        return self._next_key

    # Publishing

    @property
    def last_number(self) -> int | None:
        """The number of the message published last. Implements `port.Target`."""
        return self._publishes.last

    def publish(self, published: Published, now: float) -> bool:
        """Send a message to the leader; raise HeadraceError if too many wait for it."""
        session, publishes = self._session, self._publishes
        if session is None and not (self._moves and publishes.repeats):
            raise HeadraceError(str(self._unreachable()))
        full = session is not None and session.is_full
        if full or publishes.waiting_bytes > WAITING_BYTES_MAX:
            raise HeadraceError("too many messages wait for the queue's leader: publish later")
        publishes.add(session, self._queue, published)
        return True

    def when_stored(self, done: UnstoredDone) -> None:
        """Call `done` with the numbers of the messages so far that are not stored."""
        self._publishes.when_stored(done)

    # Consumers

    def consume(self, consumer: Consumer, now: float, done: ConsumeDone) -> None:
        """Have the leader add a consumer; `done` is called with its answer."""
        session = self._in_session()
        key = self._key()
        remote = self._consumers[key] = RemoteConsumer(consumer, key)
        self._keys[consumer] = key
        self._held[key] = set()
        self._consuming[key] = done
        self._add(session, remote)

    def _add(self, session: HomeSession, remote: RemoteConsumer) -> None:
        """Have the leader add a consumer, with the credit that its channel has room for."""
        consumer = remote.consumer
        remote.begin()
        remote.grant()
        session.call(
            Consume(
                self._queue, remote.key, consumer.tag, consumer.no_ack, consumer.exclusive,
                consumer.prefetch, consumer.wishes._replace(priority=consumer.priority),
                remote.granted,
            )
        )  # fmt: skip

    def cancel(self, consumer: Consumer, now: float) -> None:
        """Have the leader remove a consumer, if registered."""
        key = self._keys.pop(consumer, None)
        if key is None:
            return
        remote = self._consumers.pop(key)
        self._consuming.pop(key, None)
        self._publishes.close_call()
        if self._session is not None:
            self._session.call(Cancel(self._queue, key, remote.received))
        self._end(remote)
        self._forget_settled(key)

    def credit(self, consumer: Consumer) -> None:
        """Grant a consumer further deliveries. Implements `port.Queue`."""
        remote = self._consumers.get(self._keys.get(consumer, 0))
        if remote is not None:
            self._grant(remote)

    def _grant(self, remote: RemoteConsumer) -> None:
        if self._session is not None and remote.grant():
            self._session.call(Credit(self._queue, remote.key, remote.granted))

    def _end(self, remote: RemoteConsumer) -> None:
        """Release a consumer that is delivered nothing more."""
        remote.consumer.gone = True
        remote.consumer.channel.forget(remote.consumer)
        remote.release()

    def settle(
        self, disposition: Disposition, positions: Sequence[int], sizes: Sequence[int] = ()
    ) -> None:
        """Send settlements to the leader; those for ended consumers are dropped."""
        key, session = positions[0] >> _POSITION_BITS, self._session
        held = self._held.get(key)
        if held is None:
            return
        own = [each & _POSITION_MASK for each in positions]
        held.difference_update(own)
        self._forget_settled(key)
        if session is None:
            self._keep(key, disposition, own)
            return
        last = session.calls.last_growing()
        if isinstance(last, Settle) and last[:3] == (self._queue, key, disposition):
            last.positions.extend(own)
            session.calls.grow(POSITION_BYTES * len(own))
        else:
            session.call(Settle(self._queue, key, disposition, own))
        if disposition is not Disposition.ACKNOWLEDGED:
            self._publishes.close_call()

    def _forget_settled(self, key: int) -> None:
        """Forget a consumer that has ended and whose deliveries are all settled."""
        if not self._held[key] and key not in self._consumers and key != self._gets_key:
            del self._held[key]

    def get(self, getter: Getter, now: float) -> None:
        """Have the leader give the next message to a basic.get; raise Refused without one."""
        session = self._in_session()
        request = self._key()
        self._getters[request] = getter
        session.call(Get(self._queue, self._gets_key, request, getter.consumer.no_ack))

    def ask_purge(self, done: PurgeDone) -> None:
        """Have the leader settle all ready messages; `done` takes their number."""
        self._questions.purge(self._in_session(), self._queue, self._key(), done)

    def ask_info(self, done: Callable[[QueueInfo], None]) -> None:
        """Call `done` with the leader's counts, or with those known last after a second."""
        if self._session is None:
            done(self._questions.known)
        else:
            self._questions.ask_info(self._in_session(), self._queue, self._key(), done)

    def take(self, event: Event) -> Subscriber | None:
        """Take an event of the session. Implements `SessionQueue`."""
        match event:
            case Delivered():
                return self._delivered(event)
            case Stored(first=first, unstored=unstored):
                self._publishes.stored(self._session, self._queue, first, unstored)
            case Consuming(consumer=key, refused=refused):
                self._consuming_told(key, refused)
            case Cancelled(consumer=key, refused=refused):
                self._cancelled(key, refused)
            case GotMessage():
                self._got(event)
            case PurgeEnded():
                self._questions.purged(event)
            case Counted():
                self._questions.counted(event)
        return None

    def _delivered(self, event: Delivered) -> Subscriber | None:
        remote = self._consumers.get(event.consumer)
        if remote is None:  # cancelled: the leader requeues what the home had not received
            return None
        remote.receive(len(event.positions))
        if not remote.consumer.no_ack:
            self._held[event.consumer].update(event.positions)
        deliveries = Deliveries(
            self._named(event.consumer, event.positions),
            event.messages,
            [len(message.body) for message in event.messages],
            event.redelivered,
            event.returns,
        )
        channel = remote.consumer.channel
        channel.deliver(remote.consumer, deliveries, self._clock.monotonic())
        self._grant(remote)
        return channel

    def _named(self, key: int, positions: Sequence[int]) -> list[int]:
        above = key << _POSITION_BITS
        return [above | each for each in positions]

    def _consuming_told(self, key: int, refused: Refused | None) -> None:
        done = self._consuming.pop(key, None)
        if done is None:
            return
        if refused is not None:
            remote = self._consumers.pop(key)
            del self._keys[remote.consumer]
            self._end(remote)
            self._forget_settled(key)
        done(refused)

    def _cancelled(self, key: int, refused: Refused | None) -> None:
        remote = self._consumers.pop(key, None)
        if remote is not None:
            del self._keys[remote.consumer]
            self._end(remote)
            self._forget_settled(key)
            remote.consumer.channel.cancelled(remote.consumer, refused)

    def _got(self, event: GotMessage) -> None:
        getter = self._getters.pop(event.request, None)
        if getter is None:
            return
        if event.refused is not None or not event.message:
            getter.done(event.refused)
            return
        (position,) = self._named(self._gets_key, (event.position,))
        if not getter.consumer.no_ack:
            self._held[self._gets_key].add(event.position)
        if getter.consumer.channel.closed:
            if not getter.consumer.no_ack:
                self.settle(Disposition.REQUEUED, (position,))
            return
        sizes = [len(message.body) for message in event.message]
        returns = (event.returns,) if event.returns else None
        found = Deliveries((position,), event.message, sizes, event.redelivered, returns)
        getter.done(Got(found, event.ready))
