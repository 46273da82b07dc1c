"""Random lives of a transactional id: what must hold whatever clients, disks and kills do.

Two producers of one id, a coordinator whose log is flushed when told, three partitions with real
producer states. However requests are late, repeated or lost: a transaction is committed or aborted
as a whole, only its own producer can commit it, and in the end none is left open.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from hypothesis.stateful import initialize as begin_with

from headrace.coordination.transactions.producers import ProducerEpoch
from headrace.log.producers.producer_states import Begins
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from tests.support.coordination.txn_kit import ID, P0, P1, P2, TV1, TV2, Asked, Room
from tests.support.examples import examples

PARTITIONS = (P0, P1, P2)
WHICH = st.integers(0, 1)
WHERE = st.sampled_from(PARTITIONS)


@dataclass
class Written:
    """What one client means to be one transaction."""

    values: list[tuple[TopicPartition, str]] = field(default_factory=list)
    added: set[TopicPartition] = field(default_factory=set)
    """Where the coordinator has agreed that it writes: version 1 asks before its first batch."""
    end_asked: bool = False
    """Its client writes nothing more: told to ask for the end again, it does that and no more."""
    commit_asked: bool = False
    acked: set[str] = field(default_factory=set)


@dataclass
class End:
    """An EndTxn request, as it may come again at any time."""

    who: ProducerEpoch
    commit: bool
    version: int
    transaction: Written


@dataclass
class Late:
    """A batch that is still under way."""

    who: ProducerEpoch
    partition: TopicPartition
    sequence: int
    transaction: Written


@dataclass
class Client:
    who: ProducerEpoch | None = None
    version: int = TV1
    sequences: dict[TopicPartition, int] = field(default_factory=dict)
    transaction: Written | None = None
    initializing: Asked | None = None
    ending: tuple[End, Asked] | None = None

    @property
    def ready(self) -> bool:
        return self.who is not None and self.ending is None and self.initializing is None


class TransactionMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.room = Room()
        self.clients = [Client(), Client()]
        self.transactions: list[Written] = []
        self.ends: list[End] = []
        self.late: list[Late] = []
        self.count = 0
        self.written: dict[tuple[ProducerEpoch, TopicPartition, int], Written] = {}

    # What clients do

    @begin_with(version=st.sampled_from([TV1, TV2]))
    def first(self, version: int) -> None:
        self.initialize(0, version, False)

    @rule(which=WHICH, version=st.sampled_from([TV1, TV2]), goes_on=st.booleans())
    def initialize(self, which: int, version: int, goes_on: bool) -> None:
        client = self.clients[which]
        expected = client.who if goes_on else None
        client.version, client.who, client.transaction, client.ending = version, None, None, None
        client.initializing = self.room.init(expected=expected)
        self.look(client)

    def look(self, client: Client) -> None:
        """Take in the answers that have come."""
        if client.initializing is not None and client.initializing.answers:
            result, client.initializing = client.initializing.result, None
            if isinstance(result, ProducerEpoch):
                client.who, client.sequences = result, {}
        if client.ending is not None and client.ending[1].answers:
            (end, asked), client.ending = client.ending, None
            result = asked.result
            if isinstance(result, ProducerEpoch):
                self.note(end)
                if end.version == TV2:
                    client.who, client.sequences = result, {}
            elif result.code is ErrorCode.CONCURRENT_TRANSACTIONS:
                client.transaction = end.transaction
            else:
                client.who = None

    def note(self, end: End) -> None:
        end.transaction.acked.add("COMMIT" if end.commit else "ABORT")

    @rule(which=WHICH, where=WHERE)
    def write(self, which: int, where: TopicPartition) -> None:
        client = self.clients[which]
        self.look(client)
        if not client.ready or client.who is None:
            return
        if client.transaction is not None and client.transaction.end_asked:
            return
        if client.transaction is None:
            client.transaction = Written()
            self.transactions.append(client.transaction)
        sequence = client.sequences.get(where, 0)
        client.sequences[where] = sequence + 1
        self.send(client, Late(client.who, where, sequence, client.transaction), client.version)

    def send(self, client: Client | None, batch: Late, version: int) -> None:
        data = self.room.data(batch.partition)
        asked = version == TV2 or batch.partition in batch.transaction.added
        if asked and data.producers.is_open(*batch.who):
            self.append(client, batch, Begins.NO, ErrorCode.NONE)
        elif version == TV2:
            self.ask(batch, TV2, partial(self.append, client, batch, Begins.FRESH))
        else:
            self.ask(batch, TV1, partial(self.verified, client, batch))

    def ask(self, batch: Late, version: int, done: Callable[[ErrorCode], None]) -> None:
        self.room.transactions.add(
            ID,
            batch.who,
            [batch.partition],
            version,
            lambda error: done(ErrorCode.NONE if error is None else error.code),
        )

    def verified(self, client: Client | None, batch: Late, code: ErrorCode) -> None:
        if code is ErrorCode.NONE:
            refused: dict[TopicPartition, ApiError] = {}
            self.room.transactions.verify(ID, batch.who, [batch.partition], refused.update)
            if refused:
                code = refused[batch.partition].code
            else:
                batch.transaction.added.add(batch.partition)
        self.append(client, batch, Begins.VERIFIED, code)

    def append(self, client: Client | None, batch: Late, begins: Begins, code: ErrorCode) -> None:
        self.count += 1
        value = f"v{self.count}"
        try:
            if code is not ErrorCode.NONE:
                raise ApiError(code)
            data = self.room.data(batch.partition)
            place = (batch.who, batch.partition, batch.sequence)
            if not data.write(batch.who, value, batch.sequence, begins):
                assert self.written.get(place) is batch.transaction, (
                    f"taken for a repetition: {batch}"
                )
                return
            self.written[place] = batch.transaction
        except ApiError:
            if client is not None and client.who == batch.who:
                client.who = None  # it has lost its place: it begins anew
            return
        batch.transaction.values.append((batch.partition, value))

    @rule(which=WHICH, where=WHERE)
    def write_late(self, which: int, where: TopicPartition) -> None:
        """A batch of version 2 that the network keeps back."""
        client = self.clients[which]
        self.look(client)
        transaction = client.transaction
        if transaction is None or transaction.end_asked:
            return
        if client.ready and client.who is not None and client.version == TV2:
            sequence = client.sequences.get(where, 0)
            self.late.append(Late(client.who, where, sequence, transaction))

    @precondition(lambda self: self.late)
    @rule(at=st.integers(0, 9))
    def deliver(self, at: int) -> None:
        self.send(None, self.late.pop(at % len(self.late)), TV2)

    @rule(which=WHICH, commit=st.booleans())
    def end(self, which: int, commit: bool) -> None:
        client = self.clients[which]
        self.look(client)
        transaction = client.transaction
        if not client.ready or client.who is None or transaction is None:
            return
        client.transaction = None
        transaction.end_asked = True
        transaction.commit_asked = transaction.commit_asked or commit
        end = End(client.who, commit, client.version, transaction)
        self.ends.append(end)
        client.ending = end, self.room.end(end.who, end.commit, version=end.version)
        self.look(client)

    @rule(which=WHICH, where=WHERE, commit=st.booleans())
    def transact(self, which: int, where: TopicPartition, commit: bool) -> None:
        self.write(which, where)
        self.end(which, commit)

    @rule(which=WHICH)
    def ask_again(self, which: int) -> None:
        """The answer to an end was lost: the client sends it again."""
        client = self.clients[which]
        self.look(client)
        if client.ending is not None:
            end, _ = client.ending
            client.ending = end, self.room.end(end.who, end.commit, version=end.version)
            self.look(client)

    @precondition(lambda self: any(end.version == TV2 for end in self.ends))
    @rule(at=st.integers(0, 99))
    def an_old_end_comes_again(self, at: int) -> None:
        ends = [end for end in self.ends if end.version == TV2]
        end = ends[at % len(ends)]
        self.room.end(end.who, end.commit, version=end.version)

    # What the world does

    @rule(hold=st.booleans())
    def coordinator_flushes(self, hold: bool) -> None:
        self.room.partition.hold = hold
        self.room.partition.flush()
        self.room.clock.advance()

    @rule(where=WHERE, hold=st.booleans())
    def partition_flushes(self, where: TopicPartition, hold: bool) -> None:
        data = self.room.data(where)
        data.hold = hold
        data.flush()
        self.room.clock.advance()

    @rule(where=WHERE, away=st.booleans())
    def partition_goes(self, where: TopicPartition, away: bool) -> None:
        self.room.data(where).refusal = ErrorCode.NOT_LEADER_OR_FOLLOWER if away else None

    @rule(seconds=st.sampled_from([0.2, 5.0, 40.0]))
    def time_passes(self, seconds: float) -> None:
        self.room.clock.advance(seconds)

    @rule(power=st.booleans())
    def kill(self, power: bool) -> None:
        self.room = self.room.restart(lose_unflushed=power)
        for client in self.clients:
            client.initializing = None

    # What must hold

    def teardown(self) -> None:
        room = self.room
        for where in PARTITIONS:
            room.data(where).refusal = None
            room.data(where).hold = False
            room.data(where).flush()
        room.partition.hold = False
        room.partition.flush()
        for _ in range(20):
            room.clock.advance(10)
        for client in self.clients:
            self.look(client)
        for where in PARTITIONS:
            data = room.data(where)
            assert data.producers.first_unstable_offset() is None, "a transaction is left open"
        for transaction in self.transactions:
            self.check(transaction)
        super().teardown()

    def check(self, transaction: Written) -> None:
        outcomes = {self.room.data(where).outcome(value) for where, value in transaction.values}
        assert len(outcomes) <= 1, f"torn: {transaction} {outcomes}"
        assert len(transaction.acked) <= 1, f"both acknowledged: {transaction}"
        if outcomes and transaction.acked:
            assert outcomes == transaction.acked, f"not as acknowledged: {transaction} {outcomes}"
        if "COMMIT" in outcomes:
            assert transaction.commit_asked, f"committed by somebody else: {transaction}"


TestTransactionMachine = TransactionMachine.TestCase
TestTransactionMachine.settings = settings(
    max_examples=examples(50),
    stateful_step_count=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
