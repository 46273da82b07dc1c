"""`headrace rocketmq where-would-a-group-begin` says where RocketMQ's own consumer did begin.

The cases are those that RocketMQ's Java consumer played with each rule, and what it got is in
`tests/golden/rocketmq-first-start.tsv`. Here their topics and groups are made by frames.
"""

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from headrace.cli.main import run as command
from headrace.testing import BrokerThread
from headrace.wire.rocketmq.codes import ResponseCode
from tests.support.rocketmq.client import RemotingClient
from tests.support.rocketmq.kit import SETTINGS, code, made, port_of
from tests.support.rocketmq.recorded_starts import RULES, Row, rows

COLD = "1e-new-group-first-entry-cold"
SETTING = {"FIRST": "first", "LAST": "last", "TIMESTAMP": "timestamp"}
SENT_BEFORE = {"FIRST": 4, "LAST": 6, "TIMESTAMP": 8}
"""Messages of each queue: the program sends two more to it after each start."""


class Place:
    """A broker, and the topic and the group of one case on it."""

    def __init__(self, client: RemotingClient, bootstrap: str, name: str) -> None:
        self._client = client
        self._bootstrap = bootstrap
        self.topic = f"t-{name}"
        self.group = f"g-{name}"

    def grow(self, queues: int) -> None:
        """Create the topic, or set its numbers of queues."""
        time.sleep(0.005)  # the rule compares times in ms
        made(self._client, self.topic, queues)

    def send(self, queues: Sequence[int], count: int) -> None:
        """Send messages to each of some queues."""
        for queue in queues:
            for _ in range(count):
                assert code(self._client.send(self.topic, e=queue)) is ResponseCode.SUCCESS

    def consumed(self, queues: Sequence[int], offset: int) -> None:
        """Store the group's offset of some queues."""
        for queue in queues:
            named = {"consumerGroup": self.group, "topic": self.topic, "queueId": queue}
            stored = self._client.call(15, named | {"commitOffset": offset})
            assert code(stored) is ResponseCode.SUCCESS

    def joined(self) -> None:
        """Have a member of the group report itself."""
        self._client.heartbeat(self.group, self.group, {self.topic: "*"})

    def expire(self, below: int) -> None:
        """Delete the first messages of queue 0."""
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        place = TopicPartition(self.topic, 0, below)
        admin.delete_records([place])[place].result(30)

    def to_the_end(self) -> None:
        """Reset the group's offsets to the end, as an operator."""
        named = {"group": self.group, "topic": self.topic, "timestamp": -1, "isForce": "true"}
        assert code(self._client.call(222, named)) is ResponseCode.SUCCESS


def young(place: Place, setting: str) -> None:
    place.grow(3)
    place.send(range(3), SENT_BEFORE[setting])


def empty(place: Place, setting: str) -> None:
    place.grow(3)


def returned(place: Place, setting: str) -> None:
    place.grow(3)
    place.send(range(3), 6)
    place.consumed(range(3), 3)


def subscribed_later(place: Place, setting: str) -> None:
    topic = place.topic
    place.topic = f"{topic}-other"
    returned(place, setting)
    place.topic = topic
    place.grow(3)
    place.send(range(3), 4)


def grown(place: Place, setting: str) -> None:
    place.grow(3)
    place.send(range(3), 1)
    place.joined()
    place.consumed(range(3), 0)
    place.grow(6)
    place.send(range(3, 6), 2)


def one_queue(place: Place, setting: str) -> None:
    place.grow(1)
    place.send([0], 30)


def files_deleted(place: Place, setting: str) -> None:
    one_queue(place, setting)
    place.expire(20)


def remedy(place: Place, setting: str) -> None:
    place.grow(2)
    place.send(range(2), 5)
    place.to_the_end()


def joins(place: Place, setting: str) -> None:
    place.grow(4)
    place.send(range(4), 2)
    place.consumed(range(4), 2)


def taken_up_again(place: Place, setting: str) -> None:
    place.grow(2)
    place.send(range(2), 5)
    place.consumed(range(2), 2)


def expired(place: Place, setting: str) -> None:
    one_queue(place, setting)
    place.consumed([0], 10)
    place.expire(20)


def ten(place: Place, setting: str) -> None:
    place.grow(3)
    place.send(range(3), 1)
    place.joined()
    place.consumed(range(3), 0)
    place.grow(4)
    place.send([3], 10)


def shown_again(place: Place, setting: str) -> None:
    place.grow(6)
    place.send(range(6), 2)
    place.grow(3)
    place.joined()
    place.grow(6)


BUILT: dict[str, Callable[[Place, str], None]] = {
    "1-new-group-young-topic": young,
    "1b-new-group-empty-queues": empty,
    "0-group-with-offset": returned,
    "2-old-group-new-topic": subscribed_later,
    "3-queues-3-to-6-under-load": grown,
    "1e-new-group-first-entry-warm": one_queue,
    COLD: one_queue,
    "1d-new-group-old-topic": files_deleted,
    "the article's remedy: group made off, adjusted to the end while nobody is there, on": remedy,
    "second instance joins": joins,
    "topic unsubscribed and taken up again": taken_up_again,
    "topic unsubscribed until its messages expired, and taken up again": expired,
    "queue added, ten messages sent before the group has it": ten,
    "new group, 3 of 6 queues hidden, then shown": shown_again,
}
"""How each case's topic and group are made, up to the group's start."""


def got(outcome: str, queue: dict[str, int]) -> int | None:
    """Return the first offset that the consumer got of a queue; None: the outcome does not say."""
    number, end = queue["queue"], queue["max"]
    if found := re.search(rf"[{{ ]{number}=(\d+|min|max - 1)", outcome):
        named = {"min": queue["min"], "max - 1": end - 1}
        return named[found[1]] if found[1] in named else int(found[1])
    if outcome.startswith("delivered ") and "/10" in outcome:
        begins = 0 if outcome.startswith("delivered 10/") else end
        return begins if number == 3 else None
    if found := re.match(r"old delivered (\d+), when shown (\d+) more", outcome):
        return 0 if int(found[1 if number < 3 else 2]) else end
    if outcome.startswith("missed some, all in the new queues"):
        return end if number >= 3 else None
    if outcome.startswith("begins at min"):
        return queue["min"]
    return end if re.search(r"nothing|old delivered 0", outcome) else None


@pytest.fixture(params=RULES)
def rule(request: pytest.FixtureRequest) -> str:
    """A rule for new groups."""
    assert isinstance(request.param, str)
    return request.param


@pytest.fixture
def beginnings(
    rule: str, capfd: pytest.CaptureFixture[str]
) -> Iterator[Callable[[Row, int], list[dict[str, int]]]]:
    """Answers of the command for a case, once its topic and its group are made."""
    settings = SETTINGS | {"rocketmq.zero.offset.rule": rule}
    cold = settings | {"rocketmq.zero.offset.memory.bytes": "1"}
    with BrokerThread(settings) as warm, BrokerThread(cold) as large:

        def asked(row: Row, number: int) -> list[dict[str, int]]:
            broker = large if row.case.name == COLD else warm
            with RemotingClient(port_of(broker)) as client:
                place = Place(client, broker.bootstrap, str(number))
                BUILT[row.case.name](place, row.case.setting)
                capfd.readouterr()
                words = ["rocketmq", "where-would-a-group-begin", place.topic, "-g", place.group]
                at = str(int(time.time() * 1000) + 1000)
                status = command([*words, "--at", at, "--json", "-b", broker.bootstrap])
                assert status == 0
                answer: list[dict[str, int]] = json.loads(capfd.readouterr().out)
                return answer

        yield asked


def test_the_command_says_where_rocketmqs_consumer_began(
    rule: str, beginnings: Callable[[Row, int], list[dict[str, int]]]
) -> None:
    compared = set()
    for number, row in enumerate(rows()):
        if row.case.name not in BUILT or rule not in row.found:
            continue
        for queue in beginnings(row, number):
            began = got(row.found[rule], queue)
            if began is not None:
                said = queue[SETTING[row.case.setting]]
                assert said == began, (row.case, row.found[rule], queue)
                compared.add(row.case.name)
    assert compared == set(BUILT)
