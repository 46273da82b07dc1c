"""A queue that another broker leads, as the channels of this broker see it.

    NO SESSION --begin()--> IN SESSION --lost()--> NO SESSION
    publish: refused        calls to the leader    publishes unstored, consumers cancelled

A queue that `moves` has another leader then. Its consumers stay: `begin` names to the new leader
the positions that their channels hold, adds them again, and repeats the settlements that the new
leader may not have. While the queue `is_down`, there is no other leader, and all is refused.

A delivery's position, as channels know it, is the leader's position and above it the number of the
consumer, which is never used again: a settlement for a consumer that has ended with its session is
dropped.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from headrace.model.errors import HeadraceError
from headrace.ports.clock import Clock
from headrace.queue_stores.log.queue_logs import Crowded
from headrace.queue_stores.queue_settings import Published, QueueSettings, QueueType
from headrace.queues.model.declarations import DeclaredQueue
from headrace.queues.port import (
    ConsumeDone,
    Consumer,
    Disposition,
    Getter,
    Handover,
    PurgeDone,
    Queue,
    QueueInfo,
    Subscriber,
    UnstoredDone,
)
from headrace.remote_queues.home.home_session import HomeSession
from headrace.remote_queues.home.leader_link import FirstUse, LeaderLink, unreachable
from headrace.remote_queues.home.remote_consumers import RemoteConsumers
from headrace.remote_queues.home.remote_gets import RemoteGets
from headrace.remote_queues.home.remote_publishes import WAITING_BYTES_MAX, RemotePublishes
from headrace.remote_queues.home.remote_questions import RemoteQuestions
from headrace.remote_queues.home.remote_settlements import RemoteSettlements, is_own
from headrace.remote_queues.home.remote_use import RemoteUse
from headrace.remote_queues.home.replica_readers import Replica
from headrace.remote_queues.messages import (
    Attached,
    Begun,
    Cancelled,
    Chosen,
    Consuming,
    Copied,
    Counted,
    Delivered,
    Event,
    GotMessage,
    Moved,
    Opened,
    PurgeEnded,
    Recalled,
    Room,
    Stored,
)


def _touch_none(queues: Iterable[Queue]) -> None:
    """Do nothing: the channels have no queue of this broker."""


class HomeFigures(NamedTuple):
    """Publishes and deliveries under way between a home and the leader of one queue."""

    unconfirmed_batches: int
    """Batches of publishes that are not confirmed, sent or not."""
    waiting_bytes: int
    """Bytes of messages that no leader was sent."""
    credit: int
    """Deliveries granted to the leader that have not come."""


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
        producer_id: int | None = -1,
        crowded: list[Crowded] | None = None,
        touched: Callable[[Iterable[Queue]], None] = _touch_none,
        left: Callable[[], None] | None = None,
        renew: Callable[[], None] = lambda: None,
        first_use: FirstUse | None = None,
        replica: Replica | None = None,
    ) -> None:
        """Create the queue without a session: no call is answered before `begin`.

        `moves`: another broker leads the queue once its leader is lost. `producer_id`: this
        queue's, by which logs recognise publishes that are sent again; -1: none, None: it comes by
        `identify`. `crowded`: list of queues whose publishers are to be paused; None: they are not.
        `touched`: `QueueHost.touched` of this broker. `left` is called when a session is lost, or
        its leader does not lead the queue, `renew` when all epochs of the producer id are used.
        `first_use`: None if the queue has a leader before it is used. `replica`: this broker's one,
        from which it serves consumers of a stream; None: the queue is no stream.
        """
        self.vhost = vhost
        self.name = queue.name
        self.title = title
        self.failure: str | None = None
        self.declared = queue
        self.last_number: int | None = 0
        """The number of the message published last. Implements `port.Target`."""
        self.is_down = False
        """Whether the only broker with the queue's messages is down: all is refused then."""
        self._moves = moves
        self._left = left
        settings = queue.settings
        self._link = link = LeaderLink(vhost, queue.name, title, first_use)
        self._publishes = RemotePublishes(
            link,
            clock,
            [] if crowded is None else crowded,
            producer_id,
            settings.priority_max,
            renew,
        )
        self.apply(settings)
        self._settlements = RemoteSettlements(link, moves=moves)
        self.consumers = RemoteConsumers(link, self._settlements, clock, touched, replica)
        self._gets = RemoteGets(link, self._settlements, clock)
        self._questions = RemoteQuestions(link, clock)
        waiting = (self._settlements, self._gets, self._questions)
        self.use = RemoteUse(link, self._publishes, self.consumers, waiting)

    def apply(self, settings: QueueSettings) -> None:
        """Use other settings; the leader has its own. Implements `port.Queue`."""
        self.settings: QueueSettings = settings
        self.consumer_timeout_ms: int | None = settings.consumer_timeout_ms
        self._publishes.timed = (
            settings.ttl_ms is not None or settings.queue_type is QueueType.STREAM
        )

    @property
    def figures(self) -> HomeFigures:
        """Publishes and deliveries under way between this broker and the leader."""
        publishes = self._publishes
        credit = self.consumers.outstanding
        return HomeFigures(publishes.unconfirmed, publishes.waiting_bytes, credit)

    # Sessions

    @property
    def in_session(self) -> bool:
        """Whether the queue has a session with its leader."""
        return self._link.session is not None

    def begin(self, session: HomeSession) -> None:
        """Use a session with the queue's leader from now on; the one before has ended."""
        self._link.begin(session, self)
        self._publishes.begin()
        self._settlements.attach()
        self.consumers.attach(session)
        self._settlements.repeat()
        session.call(Attached(self._link.queue))
        self._gets.begin(session)

    def lost(self) -> None:
        """Report what the ended session has not answered; cancel the consumers, or keep them.

        Implements `SessionQueue`.
        """
        self._link.session = None
        self._publishes.lost(keep=self._waits)
        refused = unreachable(self._link.title)
        if self._waits:
            self._gets.lost()
            self.consumers.serve_here()
        else:
            if not self._moves:
                self._settlements.lost()
            self.consumers.cancel_all(refused)
            self._gets.refuse(refused)
        self._questions.lost(refused)
        if self._left is not None:
            self._left()

    @property
    def _waits(self) -> bool:
        """Whether calls without a session wait for the next one."""
        return self._moves and not self.is_down

    def go_down(self) -> None:
        """Refuse everything from now on, and cancel the consumers.

        Deliveries that channels hold are settled once the queue's only broker is back.
        """
        self.is_down = True
        self.leave()

    def identify(self, producer_id: int) -> None:
        """Publish with a producer id, which nothing else has used, from now on."""
        self._publishes.identify(producer_id)

    def close(self, *, deleted: bool = True) -> None:
        """End for good: the queue is deleted, or the broker stops."""
        if deleted:
            self._publishes.deleted()
        self._left = None
        self._moves = False
        self._settlements.moves = False
        self.leave()

    def leave(self) -> None:
        """Leave the session, whose leader does not lead the queue; the session goes on."""
        if self._link.session is not None:
            self._link.session.remove(self._link.queue)
        self.lost()

    # Publishing

    def publish(self, published: Published, now: float) -> bool:
        """Send a message to the leader; return False if no leader is waited for.

        Raises HeadraceError if too many messages wait.
        """
        session, publishes = self._link.session, self._publishes
        if session is None and not (self._waits and publishes.repeats):
            return False
        full = session is not None and session.is_full
        if full or publishes.waiting_bytes > WAITING_BYTES_MAX:
            raise HeadraceError("too many messages wait for the queue's leader: publish later")
        publishes.add(published)
        self.last_number = publishes.last
        return True

    def when_stored(self, done: UnstoredDone) -> None:
        """Call `done` with the numbers of the messages so far that are not stored."""
        self._publishes.when_stored(done)

    # Consumers

    def consume(self, consumer: Consumer, now: float, done: ConsumeDone) -> None:
        """Have the leader add a consumer; `done` is called with its answer.

        Raises Refused without a session, unless another broker leads the queue soon.
        """
        self._publishes.close_call()
        if not self._waits:
            self._link.open_session()
        self.consumers.add(consumer, done)

    def adopt(self, handover: Handover) -> None:
        """Take over the consumers of a queue that this broker led, and what their channels hold.

        Call it between two sessions.
        """
        self.consumers.adopt(self, handover.consumers)
        self._settlements.adopt_all(handover)

    def cancel(self, consumer: Consumer, now: float) -> None:
        """Have the leader remove a consumer, if registered."""
        self._publishes.close_call()
        self.consumers.cancel(consumer)

    def credit(self, consumer: Consumer) -> None:
        """Grant a consumer further deliveries. Implements `port.Queue`."""
        self.consumers.grant(consumer)

    def expects(self, consumer: Consumer) -> bool:
        """Tell whether a consumer has been granted deliveries that have not come.

        Implements `remote_consumer.GrantsCredit`.
        """
        return self.consumers.expects(consumer)

    def settle(
        self, disposition: Disposition, positions: Sequence[int], sizes: Sequence[int] = ()
    ) -> None:
        """Send settlements to the leader; those for ended consumers are dropped."""
        here = self.consumers.here
        if here is not None and is_own(positions[0]):
            here.settle(disposition, len(positions))
            return
        sent = self._settlements.settle(disposition, positions)
        if sent and disposition is not Disposition.ACKNOWLEDGED:
            self._publishes.close_call()

    # Questions

    def get(self, getter: Getter, now: float) -> None:
        """Have the leader give the next message to a basic.get.

        Raises Refused without a session, unless another broker leads the queue soon.
        """
        self._publishes.close_call()
        if not self._waits:
            self._link.open_session()
        self._gets.ask(getter)

    def ask_purge(self, done: PurgeDone) -> None:
        """Have the leader settle all ready messages; `done` takes their number."""
        self._publishes.close_call()
        self._questions.purge(done)

    def ask_info(self, done: Callable[[QueueInfo], None]) -> None:
        """Call `done` with the leader's counts, or with those known last after a second.

        Consumers of a stream that this broker serves are added, and their deliveries.
        """
        self._publishes.close_call()
        self._questions.ask_info(lambda info: done(self._with_here(info)))

    def ask_counts(self, done: Callable[[QueueInfo | None], None], *, closes: bool = False) -> None:
        """Call `done` with the leader's counts; None: it has not answered in a second.

        `closes`: have publishes to an empty queue wait for `reopen`: it is about to be deleted.
        """
        self._publishes.close_call()
        self._questions.ask_counts(lambda info: done(info and self._with_here(info)), closes=closes)

    def _with_here(self, info: QueueInfo) -> QueueInfo:
        here = self.consumers.here
        if here is None:
            return info
        unacked, consumers = info.unacked + here.unacked, info.consumers + len(here)
        return info._replace(unacked=unacked, consumers=consumers)

    def reopen(self) -> None:
        """Have the leader store what waits since `ask_counts`: the queue is not deleted."""
        self._questions.reopen()

    # Events

    def take(self, event: Event) -> Subscriber | None:
        """Take an event of the session. Implements `SessionQueue`."""
        match event:
            case Delivered():
                return self.consumers.delivered(event)
            case Stored(first=first, unstored=unstored):
                self._publishes.stored(first, unstored)
            case Room(first=first, room=room):
                self._publishes.room(first, room)
            case Copied(numbers=numbers):
                self._settlements.copied(numbers)
            case Opened(batch_bytes_max=bytes_max):
                self._publishes.opened(bytes_max)
            case Moved():
                self._moved()
            case _:
                self._take_answer(event)
        return None

    def _take_answer(self, event: Event) -> None:
        """Take the answer of a call."""
        match event:
            case Consuming(consumer=key, refused=refused):
                self.consumers.added(key, refused)
            case Begun(consumer=key, offset=offset):
                self.consumers.begun(key, offset)
            case Cancelled(consumer=key, refused=refused):
                self.consumers.cancelled(key, refused)
            case Chosen(consumer=key, active=active):
                self.consumers.chosen(key, active=active)
            case Recalled(consumer=key, credit=credit):
                self.consumers.recalled(key, credit)
            case GotMessage():
                self._gets.got(event)
            case PurgeEnded():
                self._questions.purged(event)
            case Counted():
                self._questions.counted(event)

    def _moved(self) -> None:
        """Leave a broker that does not lead the queue, or release publishes that it will refuse."""
        if self._moves:
            self.leave()
        else:
            self._publishes.opened(0)
