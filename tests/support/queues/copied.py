"""A queue's leader with one follower in its ISR, whose copies a test answers by hand."""

from headrace.broker.replica.in_sync_replicas import ReplicaFetch, Replicas
from headrace.copies.copying import Copying
from headrace.model.nouns import BrokerId, LeaderEpoch, Offset
from headrace.queue_stores.log.log_messages import LogMessages
from tests.support.log.log import World
from tests.support.queues.followers import FOLLOWER, LEADER, HeldTransport
from tests.support.queues.log import LogQueue

OTHER = BrokerId(2)


class NoFollowed:
    """No file of this broker follows another leader. Implements `FollowedHere`."""

    def stop(self, partition: object) -> None:
        """Do nothing."""


class CopiedQueue(LogQueue):
    """A queue whose partition has followers; their logs are always complete."""

    def __init__(
        self, world: World | None = None, *, in_sync: tuple[BrokerId, ...] = (LEADER, FOLLOWER)
    ) -> None:
        super().__init__(world, load=False)
        self.transport = HeldTransport()
        self.copying = Copying(LEADER, self.files, self.world.clock, self.transport, NoFollowed())
        self.in_sync = in_sync
        self.fetching = [FOLLOWER]
        """Followers whose fetches arrive."""
        self.partition_epoch = 1
        self.partition.role.lead(LeaderEpoch(2), self._replicas())
        self.store = LogMessages(
            self.partition,
            self.files,
            self.world.clock,
            self,
            drops_transient=True,
            handed_out_ahead=self.ahead,
            copies=self.copying,
        )

    def _replicas(self) -> Replicas:
        assigned = (LEADER, FOLLOWER, OTHER)
        return Replicas(LEADER, assigned, self.in_sync, self.partition_epoch)

    def load_late(self) -> None:
        """Load while no other replica answers."""
        loaded: list[object] = []
        self.store.load(loaded.append)
        self.world.clock.advance(0.25)
        self.world.settle()
        searching = [asked for asked in self.transport.asked if not asked[1][0].content]
        for asked in searching:
            self.transport.asked.remove(asked)
        assert loaded == [None]
        self.make_queue()

    def settle(self) -> None:
        """Let what is due be done; the followers have all records at once."""
        super().settle()
        self.fetch()
        super().settle()

    def fetch(self) -> None:
        """Have followers fetch from the log's end."""
        term, log = self.partition.role.term, self.partition.log
        if term is None:
            return
        for broker in self.fetching:
            fetch = ReplicaFetch(broker, log.end_offset, log.end_offset, log_start=Offset(0))
            term.note_fetch(fetch, self.now, may_join=self.partition.may_join(broker))

    def pass_time(self, seconds: float, *, answers: bool = True) -> None:
        """Let time pass; `answers`: whether the followers of the ISR answer at once."""
        until = self.now + seconds
        while self.now < until:
            self.world.clock.advance(0.01)
            self.settle()
            if answers:
                self.answer()

    def answer(self, *brokers: BrokerId) -> None:
        """Answer the requests to `brokers`, by default to the ISR's followers."""
        for asked in list(self.transport.asked):
            if asked[0] in (brokers or self.in_sync):
                self.bring_forward(asked[0])
                self.transport.accept()

    def bring_forward(self, broker: BrokerId) -> None:
        """Have the request to a broker be the next one that is answered."""
        asked = self.transport.asked
        (request,) = (each for each in asked if each[0] == broker)
        asked.remove(request)
        asked.insert(0, request)

    def commit_isr(self, *in_sync: BrokerId) -> None:
        """The controller has written another ISR."""
        self.in_sync = in_sync
        self.partition_epoch += 1
        self.partition.role.isr_committed(in_sync, self.partition_epoch)
