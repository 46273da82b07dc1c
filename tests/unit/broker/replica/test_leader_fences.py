"""Fences: a new leader begins once the former one has answered that it gave its right up."""

from headrace.broker.replica.leader_fences import LeaderFences
from headrace.broker.replica.leading_right import GRANT_SECONDS, WAIT_SECONDS, Ping, PingAnswer
from headrace.model.nouns import BrokerId, LeaderEpoch
from tests.support.cluster.rights_broker import KEY, PARTITION, Broker, Clock, State

X, Y, Z = BrokerId(0), BrokerId(1), BrokerId(2)


class Three:
    """Three replicas, of which X leads in epoch 0; pings are sent when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls: list[tuple[float, object]] = []
        self.brokers = [self.started(number, 1) for number in (X, Y, Z)]
        self.order(0, X, X, Y, Z)
        self.ping(X, Y)
        self.ping(X, Z)
        assert self.holders() == [X]

    def started(self, number: BrokerId, incarnation: int) -> Broker:
        clock = Clock(lambda: self.now, lambda seconds, call: None, 1.0)
        return Broker(number, incarnation, clock, 3)

    def order(self, epoch: int, leader: BrokerId, *to: BrokerId) -> None:
        """Have the controller's order reach some brokers."""
        state = State(LeaderEpoch(epoch), leader, frozenset((X, Y, Z)), epoch)
        for number in to:
            self.brokers[number].take(state, 0)

    def ask(self, sender: BrokerId, receiver: BrokerId) -> tuple[Ping, PingAnswer]:
        """Have a ping answered; the answer does not arrive yet."""
        ping = self.brokers[sender].rights.ping(receiver)
        other = self.brokers[receiver]
        return ping, other.rights.answer(ping, other.incarnation)

    def ping(self, sender: BrokerId, receiver: BrokerId) -> PingAnswer:
        ping, answer = self.ask(sender, receiver)
        self.brokers[sender].rights.answered(receiver, self.now, ping, answer)
        return answer

    def holders(self) -> list[BrokerId]:
        """The brokers that may act, as they know it."""
        for broker in self.brokers:
            broker.held.check()
        return [broker.broker_id for broker in self.brokers if broker.held.reported.get(PARTITION)]


def test_right_moves_with_one_answer_of_each_member() -> None:
    three = Three()
    three.order(1, Y, Y)
    assert three.brokers[Y].rights.fenced == {X, Z}
    assert three.ping(Y, X).given_up == {KEY: frozenset()}
    assert three.holders() == []  # X ended its right when it answered; Z has not granted yet
    three.order(1, Y, Z)
    three.ping(Y, Z)
    assert three.holders() == [Y]
    assert three.brokers[Y].rights.fenced == set()


def test_former_leader_ends_its_right_before_its_answer_arrives() -> None:
    three = Three()
    three.order(1, Y, Y, Z)
    ping, answer = three.ask(Y, X)
    assert three.holders() == []
    assert answer.epochs == {KEY: 1}
    three.brokers[Y].rights.answered(X, three.now, ping, answer)
    three.ping(Y, Z)
    assert three.holders() == [Y]


def test_former_leader_answers_after_its_own_order_too() -> None:
    three = Three()
    three.order(1, Y, X, Y, Z)
    assert three.ping(Y, X).given_up == {KEY: frozenset()}
    three.ping(Y, Z)
    assert three.holders() == [Y]


def test_broker_that_held_no_right_gives_none_up() -> None:
    three = Three()
    three.order(1, Y, Y, Z)
    assert three.ping(Y, Z).given_up == {}
    three.now = WAIT_SECONDS / 2
    three.order(2, Z, Z)
    assert three.ping(Z, Y).given_up == {}  # Y had not begun: X may hold its right
    three.ping(Z, X)
    assert three.holders() == []
    three.now += WAIT_SECONDS
    three.order(2, Z, X)
    three.ping(Z, X)
    three.ping(Z, Y)
    assert three.holders() == [Z]


def test_restarted_leader_gives_no_right_up() -> None:
    three = Three()
    three.order(1, Y, Y, Z)
    three.brokers[X] = three.started(X, 2)
    answer = three.ping(Y, X)
    assert answer.given_up == {}
    assert answer.epochs == {}


def test_restarted_broker_learns_no_epoch_from_a_fence() -> None:
    # It may have refused a leader of this epoch before, as it knew a later one.
    three = Three()
    three.order(1, Y, X, Y, Z)
    three.ping(Y, X)
    three.brokers[Z] = three.started(Z, 2)
    three.order(2, Z, X)
    three.ping(Y, Z)
    assert three.brokers[Z].rights.answer(Ping(-1, 0), 2).epochs == {}
    assert three.holders() == []


def test_late_order_of_the_former_epoch_gives_no_right_back() -> None:
    three = Three()
    three.order(1, Y, Y, Z)
    three.ping(Y, X)
    three.ping(Y, Z)
    three.order(0, X, X)
    for at in (0.0, WAIT_SECONDS):
        three.now = at
        three.ping(X, Y)
        three.ping(X, Z)
        three.ping(Y, X)
        three.ping(Y, Z)
        assert three.holders() == [Y]


def test_former_leader_is_fenced_once_the_next_one_has_asked() -> None:
    three = Three()
    rights = three.brokers[X].rights
    assert not rights.is_fenced
    three.order(1, Y, X, Y, Z)
    assert not rights.is_fenced
    three.ping(Y, X)
    assert rights.is_fenced


def test_lost_answer_is_asked_for_again() -> None:
    three = Three()
    three.order(1, Y, Y, Z)
    three.ask(Y, X)
    assert three.ping(Y, X).given_up == {KEY: frozenset()}


def test_answer_to_a_former_leadership_begins_no_later_one() -> None:
    three = Three()
    three.order(1, Y, Y, Z)
    ping, answer = three.ask(Y, X)
    three.order(2, Z, X, Y, Z)
    three.order(3, Y, X, Y, Z)
    three.brokers[Y].rights.answered(X, three.now, ping, answer)
    three.ping(Y, X)
    three.ping(Y, Z)
    assert three.holders() == []
    assert three.brokers[Y].rights.fenced == set()  # both have answered: they gave nothing up


def test_leader_that_goes_on_fences_no_broker() -> None:
    three = Three()
    three.order(1, X, X, Y, Z)
    assert three.brokers[X].rights.fenced == set()
    assert three.holders() == [X]


def test_homes_of_the_former_leader_are_named_and_taken_once() -> None:
    three = Three()
    homes = frozenset((Z, BrokerId(7)))
    three.brokers[X].rights.homes_of = lambda partition: homes
    three.order(1, Y, X, Y, Z)
    assert three.ping(Y, X).given_up == {KEY: homes}
    assert three.brokers[Y].rights.take_homes(PARTITION) == homes
    assert three.brokers[Y].rights.take_homes(PARTITION) == frozenset()


def test_former_leader_that_is_no_replica_is_fenced() -> None:
    three = Three()
    following = three.brokers[Y]
    following.former = BrokerId(9)
    three.order(1, Y, Y)
    assert following.rights.fenced == {X, Z, 9}
    assert following.rights.others == {X, Z, 9}


def test_stopped_replica_gives_no_right_up() -> None:
    three = Three()
    three.brokers[X].rights.stopped(PARTITION, KEY[0], deleted=True)
    assert three.holders() == []
    three.order(1, Y, Y, Z)
    assert three.ping(Y, X).given_up == {}


def test_right_ends_at_the_time_of_the_first_grant() -> None:
    three = Three()
    three.now = 0.2
    three.ping(X, Y)
    three.now = GRANT_SECONDS * 0.99
    assert three.holders() == [X]
    three.now = GRANT_SECONDS
    assert three.holders() == []
    three.ping(X, Z)
    assert three.holders() == [X]


def test_right_ends_with_the_registration_of_a_member() -> None:
    three = Three()
    three.brokers[X].rights.forget(Z)
    assert three.holders() == []


def test_right_ends_with_a_new_process_of_a_member() -> None:
    three = Three()
    three.brokers[Z] = three.started(Z, 2)
    three.ping(X, Z)
    assert three.holders() == []
    three.order(0, X, Z)
    three.ping(X, Z)
    assert three.holders() == [X]


def test_late_answer_of_a_former_process_extends_no_right() -> None:
    three = Three()
    rights = three.brokers[X].rights
    three.now = 0.1
    delayed = rights.ping(Z)
    three.now = 0.2
    ping, late = three.ask(X, Z)
    three.brokers[Z] = three.started(Z, 2)
    three.order(0, X, Z)
    rights.answered(Z, 0.1, delayed, three.brokers[Z].rights.answer(delayed, 2))
    three.ping(X, Y)
    rights.answered(Z, 0.2, ping, late)
    assert three.holders() == [X]
    three.now = 0.1 + GRANT_SECONDS
    assert three.holders() == []


def test_right_ends_when_a_silent_replica_joins() -> None:
    three = Three()
    term = three.brokers[X].term
    term.in_sync = term.maximal = frozenset((X, Y))
    term.isr_changed()
    three.now = GRANT_SECONDS
    three.ping(X, Y)
    assert three.holders() == [X]
    term.maximal = frozenset((X, Y, Z))
    term.isr_changed()
    assert three.holders() == []


def test_right_of_a_leader_alone_ends_with_its_lease() -> None:
    three = Three()
    leader = three.brokers[X]
    leader.lease = lambda: True
    leader.term.in_sync = leader.term.maximal = frozenset((X,))
    leader.term.isr_changed()
    assert three.holders() == [X]
    leader.lease = lambda: False
    assert three.holders() == []
    leader.lease = lambda: True
    assert three.holders() == [X]


def test_fence_of_a_later_leadership_replaces_the_former_one() -> None:
    fences = LeaderFences()
    fences.ask(KEY, LeaderEpoch(3), (X, Y))
    fences.ask(KEY, LeaderEpoch(3), (Z,))
    fences.answered(X, {KEY: LeaderEpoch(2)})
    assert fences.of(X) == {KEY: 3}
    fences.ask(KEY, LeaderEpoch(5), (X,))
    assert fences.brokers == {X}
    fences.answered(X, {KEY: LeaderEpoch(3)})
    assert fences.of(X) == {KEY: 5}
    fences.end(KEY)
    assert fences.brokers == set()
