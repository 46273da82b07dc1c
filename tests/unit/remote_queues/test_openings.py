"""A queue that a home opens again in a session: its leader was elected again."""

from tests.support.amqp.deliveries import getter
from tests.support.queues.moving_place import MovingPlace


def test_leader_that_is_elected_again_has_each_consumer_once() -> None:
    here = MovingPlace()
    here.consume(prefetch=2)
    here.publish("a", "b", "c")
    assert here.sent() == ["1:c:a", "2:c:b"]
    here.remote.leave()
    here.remote.begin(here.network.session)  # the same: the leader has a later epoch only
    here.settle()
    assert here.led == (1, 2)
    assert len(here.life.queue().consumers) == 1
    here.channel.ack(0, multiple=True)
    assert here.sent() == ["3:c:c"]
    here.channel.ack(3)
    here.settle()
    assert here.led == (0, 0)


def test_get_that_waits_for_its_leader_is_answered_by_its_next_opening() -> None:
    here = MovingPlace()
    here.publish("a")
    queue = here.life.queue()
    queue.pause()
    got: list[object] = []
    here.remote.get(getter(here.remote, here.channel, got.append, 0.0), 0.0)
    here.settle()
    here.remote.leave()
    here.remote.begin(here.network.session)
    here.settle()
    queue.begin()
    here.settle()
    assert (len(got), here.led) == (1, (0, 1))
    assert here.channel.held
