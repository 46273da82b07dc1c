"""Returns of deliveries on another broker, as the delivery limit counts them in RabbitMQ 4.3."""

from headrace.remote_queues.leader.queue_sessions import LOST_SECONDS, POLL_SECONDS
from tests.support.amqp.deliveries import Delivery
from tests.support.queues.port_place import persistent
from tests.support.queues.remote_pair import RemotePlace

LIMITED: dict[str, object] = {"x-queue-type": "quorum", "x-delivery-limit": 5}


def got(here: RemotePlace) -> Delivery:
    """The next message, with whether and how often it was returned."""
    delivery = here.get()
    assert delivery is not None
    return delivery


def test_delivery_that_a_cancelled_consumer_did_not_get_is_not_counted() -> None:
    here = RemotePlace(LIMITED, durable=True)
    consumer = here.consume(prefetch=1)
    here.settle()
    here.leader.publish(["q"], persistent("a"))
    for _ in range(5):  # the delivery is sent, and has not arrived
        here.run_leader()
        here.wait(0.1)
    assert here.leader.queues["q"].unacked == 1
    here.cancel(consumer)
    assert here.sent() == []
    assert got(here)[3:] == (True, 0)


def test_deliveries_of_an_ended_session_are_counted() -> None:
    here = RemotePlace(LIMITED, durable=True)
    here.consume(prefetch=1)
    here.published("a")
    assert here.sent() == ["1:c:a"]
    here.network.lose_connection()
    here.wait(POLL_SECONDS + LOST_SECONDS)
    here.settle()
    assert here.network.session.ended
    here.begin()
    assert got(here)[3:] == (True, 1)
