"""Direct replies to channels of another broker, as calls of a session."""

from headrace.model.nouns import BrokerId
from headrace.queues.port import ALL_STORED
from headrace.remote_queues.home.replies_elsewhere import RemoteReplies, RepliesElsewhere
from headrace.wire.amqp.content import Message
from headrace.wire.amqp.properties import Properties, make_header
from tests.support.queues.remote_pair import RemotePlace

OTHER = BrokerId(1)


def reply(name: str, body: bytes) -> Message:
    return Message("", name, make_header(len(body), Properties()), body)


class Place:
    """Replies of one broker to the channels of another one, which expects those to `known`."""

    def __init__(self) -> None:
        self.pair = RemotePlace(durable=False)
        self.pair.sessions.deliver_reply = self._deliver
        self.replies = RemoteReplies(OTHER, self.pair.network.session)
        self.delivered: list[bytes] = []
        self.found: list[bool] = []

    def _deliver(self, message: Message, asks: bool) -> bool:
        if message.routing_key != "known":
            return False
        if not asks:
            self.delivered.append(message.body)
        return True

    def send(self, name: str, body: bytes, *, asks: bool = False) -> None:
        self.replies.send(reply(name, body), self.found.append, asks=asks)


def test_replies_arrive_in_order_and_those_without_a_channel_are_reported() -> None:
    place = Place()
    for number in range(3):
        place.send("known", b"%d" % number)
    place.send("unknown", b"late")
    place.send("known", b"", asks=True)
    place.pair.run()
    assert place.delivered == [b"0", b"1", b"2"]
    assert place.found == [True, True, True, False, True]


def test_confirm_waits_for_the_answers_to_replies() -> None:
    place = Place()
    told: list[object] = []
    place.send("known", b"1")
    place.replies.when_stored(told.append)
    place.send("known", b"2")
    assert not told
    place.pair.run()
    assert told == [ALL_STORED]


def test_reply_is_delivered_once_over_a_lost_connection() -> None:
    place = Place()
    place.send("known", b"1")
    place.pair.network.send()
    place.pair.network.deliver("calls")
    place.pair.network.lose_connection()
    place.pair.run()
    assert (place.delivered, place.found) == ([b"1"], [True])


def test_replies_without_an_answer_count_as_delivered_when_the_session_ends() -> None:
    place = Place()
    told: list[object] = []
    place.send("known", b"1")
    place.replies.when_stored(told.append)
    place.pair.network.session.end()
    assert (place.found, told) == ([True], [ALL_STORED])


def test_each_session_with_a_broker_has_replies_of_its_own() -> None:
    network = RemotePlace(durable=False).network
    elsewhere = RepliesElsewhere(BrokerId(2), lambda broker: network.session if broker else None)
    first = elsewhere.to(OTHER)
    assert first is not None
    assert elsewhere.to(OTHER) is first
    network.session.end()
    network.begin()
    assert elsewhere.to(OTHER) is not first
    assert elsewhere.to(BrokerId(0)) is None
