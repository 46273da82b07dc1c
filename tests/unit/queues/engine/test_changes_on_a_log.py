"""Changes of the settings of a queue whose messages are on a log."""

from headrace.queues.model.declarations import TTLS_MAX, DeclaredQueue
from headrace.queues.port import Disposition
from tests.support.queues.lives import BrokerLife
from tests.support.queues.policies import change_queue
from tests.support.queues.queues import settings


def test_ttl_of_the_log_is_that_of_the_publish_while_the_broker_runs() -> None:
    queue = DeclaredQueue("q", True, False, None, {}, settings(ttl_ms=60_000))
    queue.change(settings(ttl_ms=1500), 1000)
    queue.change(settings(length_max=3, ttl_ms=1500), 2000)
    queue.change(settings(), 3000)
    assert [queue.ttl_ms_at(at) for at in (0, 999, 1000, 2999, 3000)] == [
        60_000, 60_000, 1500, 1500, None,
    ]  # fmt: skip
    for at in range(4000, 4000 + 2 * TTLS_MAX):
        queue.change(settings(ttl_ms=at), at)
    assert len(queue._ttls) == TTLS_MAX
    assert queue.ttl_ms_at(4000 + TTLS_MAX) == 4000 + TTLS_MAX


def test_ttl_of_a_policy_is_for_messages_after_it_when_the_broker_starts() -> None:
    joined = settings(ttl_ms=1500)._replace(ttl_since_ms=1000, ttl_before_ms=60_000)
    queue = DeclaredQueue("q", True, False, None, {}, joined)
    assert [queue.ttl_ms_at(at) for at in (999, 1000)] == [60_000, 1500]
    queue.change(settings(), 2000)
    assert [queue.ttl_ms_at(at) for at in (999, 1000, 2000)] == [60_000, 1500, None]


def test_message_that_is_read_again_has_the_ttl_of_its_publish() -> None:
    life = BrokerLife({"q": {}})
    life.publish("before", lambda stored: None)
    life.wait(1)
    change_queue(life.host, "q", life.world.clock.wall_ms(), ttl_ms=2000)
    life.publish("after", lambda stored: None)
    got = [life.get(), life.get()]
    life.queue().settle(Disposition.REQUEUED, (0, 1), (6, 5))
    life.wait(3)
    assert life.queue().ready == 2, "the first does not expire"
    got = [life.get(), life.get()]
    assert [each and each[2].body for each in got] == [b"before", None]


def test_ttl_of_arguments_holds_for_messages_of_the_broker_before() -> None:
    life = BrokerLife({"q": {"x-message-ttl": 2000}})
    life.publish("expires", lambda stored: None)
    life.wait(1)
    again = life.killed()
    assert again.queue().ready == 1
    again.wait(2)
    assert again.queue().ready == 0


def test_trim_of_a_log_is_settled_and_outlives_the_broker() -> None:
    life = BrokerLife({"q": {}})
    for body in range(30):
        life.publish(str(body), lambda stored: None)
    life.settle()
    change_queue(life.host, "q", length_max=3)
    life.wait(1)
    again = life.killed()
    assert again.queue().ready == 3
    assert [got[2].body for got in iter(again.get, None)] == [b"27", b"28", b"29"]


def test_leader_that_changes_in_a_trim_goes_on_with_it() -> None:
    life = BrokerLife({"q": {}})
    for body in range(1200):
        life.publish(str(body), lambda stored: None)
    life.settle()
    change_queue(life.host, "q", length_max=3)
    while life.queue().ready == 1200:
        life.some_turns(1)
    assert 3 < life.queue().ready < 1200
    again = life.killed()
    change_queue(again.host, "q", length_max=3)
    again.wait(1)
    assert [got[2].body for got in iter(again.get, None)] == [b"1197", b"1198", b"1199"]


def test_changes_under_load_on_a_log_drop_no_confirmed_message_but_by_the_limit() -> None:
    life = BrokerLife({"q": {}})
    confirmed: list[bool] = []
    taken: list[str] = []
    for change in range(100):
        for number in range(5):
            life.publish(f"{change}.{number}", confirmed.append)
        change_queue(life.host, "q", length_max=3 if change % 2 else None)
        life.some_turns(2)
        if change % 10 == 5:
            life.settle()
        if change % 4 == 0:
            taken += (got[2].body.decode() for got in iter(life.get, None))
        life.channel.ack(0, multiple=True)
    change_queue(life.host, "q", length_max=None)
    life.wait(1)
    queue = life.queue()
    assert confirmed == [True] * 500
    assert queue.traffic.discarded > 100
    assert len(taken) + queue.ready + queue.traffic.discarded == 500
    left = queue.ready
    again = life.killed()
    assert len(list(iter(again.get, None))) == left
