"""Queues that other brokers lead: their leaders change, are unknown, or are this broker."""

from typing import Any

import pytest

from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId
from headrace.ports.callbacks import Done, ignore_result
from headrace.queues.model.declarations import DeclaredQueue
from headrace.queues.port import Consumer, Getter, Handover
from headrace.queues.queue_names import QueueName
from headrace.queues.refusals import Refused
from headrace.remote_queues.home.home_session import HomeSession
from headrace.remote_queues.home.queues_elsewhere import QueuesElsewhere
from headrace.remote_queues.leader.queue_sessions import LOST_SECONDS
from tests.support.queues.moving_place import MovingPlace
from tests.support.queues.port_place import persistent

Q = QueueName("/", "q")


class Elsewhere(MovingPlace):
    """A queue whose leaders the home looks up by itself. Implements `Leaders`."""

    def __init__(self, arguments: dict[str, object] | None = None) -> None:
        super().__init__(arguments)
        self.remote.close()
        self.present: BrokerId | None = BrokerId(1)
        self.registered = True
        self.unused = False
        self.down = False
        self.used: list[str] = []
        self.ids = iter(range(100, 200))
        self.wanted: list[Done[int | ApiError]] = []
        self.looks = 0
        self.elsewhere = QueuesElsewhere(
            self, self.clock, self.life.logs.crowded, lambda _, queues: self.home.touched(queues)
        )
        led = self.life.queue()
        self.remote = self.elsewhere.open("/", led.declared, led.title)
        self.home.targets["q"] = self.remote
        self.give_id()

    def begin(self) -> None:
        """Do nothing: the home looks for the leader."""
        if not hasattr(self, "elsewhere"):
            super().begin()

    def give_id(self) -> None:
        """Answer all requests for a producer id."""
        wanted, self.wanted = self.wanted, []
        for give in wanted:
            give(next(self.ids))

    def leads_next(self) -> None:
        """Change the leader; the metadata image has the next one."""
        self.move()
        assert self.present is not None
        self.present = BrokerId(self.present + 1)
        self.elsewhere.look(Q)

    # `Leaders`

    def leader_of(self, name: QueueName) -> BrokerId | None:
        return self.present

    def is_unused(self, name: QueueName) -> bool:
        return self.unused

    def is_down(self, name: QueueName) -> bool:
        return self.down

    def use(self, vhost: str, queue: DeclaredQueue) -> None:
        self.used.append(queue.name)

    def session(self, leader: BrokerId) -> HomeSession | None:
        self.looks += 1
        if not self.registered:
            return None
        return self.network.begin() if self.network.session.ended else self.network.session

    def replica(self, name: QueueName) -> None:
        """Return None: the queue is no stream."""

    def new_producer_id(self, give: Done[int | ApiError]) -> None:
        self.wanted.append(give)


def in_session(here: Elsewhere) -> bool:
    return here.remote.in_session


def test_queue_goes_on_with_each_next_leader() -> None:
    here = Elsewhere()
    here.consume(prefetch=1)
    here.publish("a", "b")
    assert here.sent() == ["1:c:a"]
    for number in range(3):
        here.leads_next()
        assert here.publish(f"c{number}") == [True]
    here.channel.ack(1)
    assert here.sent() == ["2:c:b*"]
    assert here.cancelled == []
    assert here.led == (3, 1)


def test_leader_that_is_elected_again_keeps_its_consumers() -> None:
    here = Elsewhere()
    here.consume(prefetch=1)
    here.publish("a", "b")
    assert here.sent() == ["1:c:a"]
    here.elsewhere.look(Q)
    here.settle()
    assert (here.network.counts["Open"], here.network.counts["Cancel"]) == (2, 0)  # one by `begin`
    here.channel.ack(1)
    assert here.sent() == ["2:c:b"]


def test_leader_is_looked_for_again_when_a_session_is_lost() -> None:
    here = Elsewhere()
    here.consume()
    here.settle()
    here.network.session.end()  # the same broker leads
    assert not in_session(here)
    here.settle()
    assert in_session(here)
    here.publish("a")
    assert here.sent() == ["1:c:a"]


def test_publishes_and_consumers_wait_while_no_leader_is_known() -> None:
    here = Elsewhere()
    here.settle()
    here.present = None
    here.move()
    told: list[Any] = here.publish_soon("a")
    here.settle()
    assert told == []
    here.present = BrokerId(2)
    here.elsewhere.look(Q)
    here.settle()
    assert [*map(bool, told)] == [False]
    assert here.led == (1, 0)


def test_broker_that_is_not_registered_is_asked_for_with_growing_pauses() -> None:
    here = Elsewhere()
    here.settle()
    here.registered = False
    here.network.session.end()
    here.looks = 0
    here.wait(10)
    assert 5 < here.looks < 30
    here.registered = True
    here.wait(2)
    assert here.remote.in_session


def test_leader_that_does_not_lead_the_queue_is_asked_again_later() -> None:
    here = Elsewhere()
    here.settle()
    here.sessions.moved("/", "q")
    here.network.send()
    here.network.deliver_all()
    assert not in_session(here)
    here.settle()
    assert in_session(here)
    assert here.publish("a") == [True]


def test_nothing_is_published_before_the_controller_has_given_a_producer_id() -> None:
    here = Elsewhere()
    other = QueuesElsewhere(here, here.clock, [], lambda *_: None)
    led = here.life.queue()
    here.home.targets["q"] = here.remote = other.open("/", led.declared, led.title)
    told = here.publish_soon("a")
    here.settle()
    assert told == []
    (give,) = here.wanted
    here.wanted.clear()
    give(ApiError(ErrorCode.NOT_CONTROLLER))
    here.wait(2)
    here.give_id()
    here.settle()
    assert [*map(bool, told)] == [False]


def test_queue_that_is_declared_again_has_another_producer_id() -> None:
    here = Elsewhere()
    here.publish("a")
    led = here.life.queue()
    led.declared.change(led.settings._replace(length_max=3), 0)
    again = here.elsewhere.open("/", led.declared, led.title)
    assert again is here.remote, "with other settings it is the same queue"
    declared = DeclaredQueue(led.name, True, False, None, {}, led.settings)
    other = here.elsewhere.open("/", declared, led.title)
    assert other is not here.remote
    assert not here.remote.in_session
    assert len(here.wanted) == 1


def test_deleted_queue_cancels_its_consumers_and_looks_for_no_leader() -> None:
    here = Elsewhere()
    here.consume()
    here.settle()
    here.elsewhere.close_queue(Q)
    assert here.cancelled == ["c"]
    here.looks = 0
    here.elsewhere.look(Q)
    here.wait(2)
    assert here.looks == 0
    here.elsewhere.close()


@pytest.mark.parametrize("at_leader", [False, True])
def test_publishes_to_a_queue_that_is_deleted_meanwhile_are_confirmed(at_leader: bool) -> None:
    here = Elsewhere()
    here.publish("a")
    told = here.publish_soon("b")
    if at_leader:
        here.life.host.delete_queue("q", None, if_unused=False, if_empty=False)
        here.settle()
    else:
        here.elsewhere.close_queue(Q)
    assert [*map(bool, told)] == [False]


def test_session_that_the_leader_ended_is_replaced() -> None:
    here = Elsewhere()
    here.consume(prefetch=1)
    here.publish("a")
    assert here.sent() == ["1:c:a"]
    here.network.lose_connection()
    here.life.wait(2 * LOST_SECONDS)  # the leader ends the session and requeues
    here.settle()
    here.settle()
    assert here.remote.in_session
    assert here.led == (0, 1)
    assert here.sent() == []


def test_consumers_of_this_broker_go_on_when_another_broker_leads_its_queue() -> None:
    here = Elsewhere()
    here.elsewhere.close_queue(Q)
    queue, now = here.life.queue(), here.now
    consumer = Consumer(queue, here.channel, "own", prefetch=2)
    queue.consume(consumer, now, ignore_result)
    here.life.publish("a", ignore_result)
    here.life.publish("b", ignore_result)
    here.life.publish("c", ignore_result)
    here.settle()
    here.life.hosts.turns.run()
    assert [each.split(":")[2] for each in here.sent()] == ["a", "b"]
    here.move()
    here.remote = here.elsewhere.open("/", queue.declared, queue.title, Handover([consumer]))
    here.give_id()
    here.channel.ack(1)  # before the next leader is asked
    assert here.sent() == ["3:own:c*"]
    assert here.led == (0, 2)
    here.channel.nack(2)
    assert here.sent() == ["4:own:b*"]
    here.channel.ack(0, multiple=True)
    here.settle()
    assert here.led == (0, 0)
    assert here.channel.held == {}


def test_queue_that_was_never_used_is_empty_and_has_its_leader_with_its_first_publish() -> None:
    here = Elsewhere()
    other = QueuesElsewhere(here, here.clock, [], lambda *_: None)
    here.present, here.unused = None, True
    here.wanted.clear()
    led = here.life.queue()
    here.home.targets["q"] = here.remote = other.open("/", led.declared, led.title)
    here.looks = 0
    here.wait(5)
    assert (here.looks, here.wanted, here.used) == (0, [], [])
    purged: list[Any] = []
    here.remote.ask_purge(purged.append)
    assert purged == [0]
    assert here.get() is None
    told = here.publish_soon("a")
    assert (told, here.used) == ([], ["q"])
    here.present, here.unused = BrokerId(1), False
    other.look(Q)
    here.give_id()
    here.settle()
    assert [*map(bool, told)] == [False]


def test_first_consumer_of_a_queue_has_a_broker_lead_it() -> None:
    here = Elsewhere()
    other = QueuesElsewhere(here, here.clock, [], lambda *_: None)
    here.present, here.unused = None, True
    led = here.life.queue()
    here.home.targets["q"] = here.remote = other.open("/", led.declared, led.title)
    here.home.consume(Consumer(here.remote, here.channel, "c"), ignore_result)
    assert here.used == ["q"]


def test_publish_while_the_topic_of_the_queue_before_it_exists_is_a_first_use() -> None:
    here = Elsewhere()
    other = QueuesElsewhere(here, here.clock, [], lambda *_: None)
    here.registered = False  # the leader of the queue before
    led = here.life.queue()
    here.home.targets["q"] = here.remote = other.open("/", led.declared, led.title)
    other.look(Q)
    here.used.clear()
    here.present, here.unused = None, True
    other.look(Q)
    assert here.used == []
    here.present, here.unused = BrokerId(1), False
    here.publish_soon("a")
    here.used.clear()
    here.present, here.unused = None, True
    other.look(Q)
    assert here.used == ["q"]


def _broker_dies(here: Elsewhere) -> None:
    """End the only broker with the queue's messages; the metadata image says so."""
    here.move()
    here.present, here.down = None, True
    here.elsewhere.look(Q)


def test_queue_whose_only_broker_is_down_refuses_everything_at_once() -> None:
    here = Elsewhere()
    here.consume(prefetch=1)
    here.publish("a")
    assert here.sent() == ["1:c:a"]
    told = here.publish_soon("b")
    _broker_dies(here)
    assert here.cancelled == ["c"]
    assert [*map(bool, told)] == [True]
    assert not here.remote.publish(persistent("c"), 0.0)
    consumer = Consumer(here.remote, here.channel, "d")
    with pytest.raises(Refused, match="failed to perform operation on queue 'q'"):
        here.remote.consume(consumer, 0.0, ignore_result)
    with pytest.raises(Refused, match="due to timeout"):
        here.remote.get(Getter(consumer, ignore_result), 0.0)
    with pytest.raises(Refused, match="due to timeout"):
        here.remote.ask_purge(ignore_result)


def test_queue_whose_only_broker_is_back_is_used_again() -> None:
    here = Elsewhere()
    here.consume(prefetch=1)
    here.publish("a", "b")
    assert here.sent() == ["1:c:a"]
    _broker_dies(here)
    here.channel.ack(1, multiple=False)  # stored once the broker is back
    here.present, here.down = BrokerId(1), False
    here.elsewhere.look(Q)
    here.settle()
    told = here.publish_soon("c")
    here.settle()
    assert [*map(bool, told)] == [False]
    here.consume("again")
    assert [each.split(":")[-1].rstrip("*") for each in here.sent()] == ["b", "c"]
    assert here.cancelled == ["c"]
