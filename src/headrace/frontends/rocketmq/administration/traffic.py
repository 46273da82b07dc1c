"""Messages stored and pulled, as tools ask for them: rates and sums; counts of requests."""

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.subscriptions.message_rates import MessageRate, MessageRates, RateSpan
from headrace.wire.rocketmq.codes import RequestCode, ResponseCode

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.frontends.rocketmq.partition_numbers import PartitionNumbers

PULLED_MAX = 100_000
"""Pairs of group and topic that are counted at most; beyond it counting starts again."""
_ALL = "", ""


class Traffic:
    """Totals since the start of the broker, and rates. On the deciding thread.

    Stored messages are counted by the offsets of partitions, so that those of Kafka's producers
    count, too; transaction markers count as messages. Topics count once RocketMQ's clients have
    used them.
    """

    def __init__(self, broker: "Broker", numbers: "PartitionNumbers") -> None:
        self._broker = broker
        self._numbers = numbers
        self._pulled: dict[tuple[str, str], int] = {_ALL: 0}
        self._stored: MessageRates[str] = MessageRates()
        self._got: MessageRates[tuple[str, str]] = MessageRates()

    def pulled(self, group: str, topic: str, count: int) -> None:
        """Count messages that were pulled; `topic` by Kafka's name."""
        pulled, pair = self._pulled, (group, topic)
        if pair not in pulled and len(pulled) > PULLED_MAX:
            self._pulled = pulled = {_ALL: pulled[_ALL]}
        pulled[pair] = pulled.get(pair, 0) + count
        pulled[_ALL] += count

    def sample(self) -> None:
        """Note the totals; called every `message_rates.SAMPLE_SECONDS`."""
        now, totals = self._broker.clock.monotonic(), {"": 0}
        for info in self._broker.image.topics.values():
            if self._numbers.is_used(info):
                totals[info.name] = self.stored_total(info.name, len(info.partitions))
                totals[""] += totals[info.name]
        self._stored.sample(totals, now)
        self._got.sample(self._pulled, now)

    def stored_total(self, topic: str, partitions: int) -> int:
        """Return the messages of a topic that were ever stored on this broker."""
        led = self._broker.partitions
        found = (led.get((topic, index)) for index in range(partitions))
        return sum(each.readable_end(True) for each in found if each is not None)

    def stored_rate(self, topic: str = "", span: RateSpan = RateSpan.MINUTE) -> MessageRate:
        """Return the rate of messages stored in a topic, by Kafka's name; "": in all of them."""
        return self._stored.rate(topic, span)

    def pulled_rate(
        self, group: str = "", topic: str = "", span: RateSpan = RateSpan.MINUTE
    ) -> MessageRate:
        """Return the rate of messages that a group pulls from a topic; "", "": all of them."""
        return self._got.rate((group, topic), span)

    @property
    def stored_count(self) -> int:
        """The messages of all topics in use that were ever stored on this broker."""
        topics = self._broker.image.topics.values()
        used = (info for info in topics if self._numbers.is_used(info))
        return sum(self.stored_total(info.name, len(info.partitions)) for info in used)

    @property
    def pulled_count(self) -> int:
        """The messages pulled since the start."""
        return self._pulled[_ALL]


# Requests

OTHER = "other"
"""The label of codes that Headrace does not know: clients choose them freely."""
_EXPECTED = frozenset(
    (
        ResponseCode.SUCCESS,
        ResponseCode.PULL_NOT_FOUND,
        ResponseCode.PULL_RETRY_IMMEDIATELY,
        ResponseCode.PULL_OFFSET_MOVED,
        ResponseCode.QUERY_NOT_FOUND,
    )
)
"""Codes of answers that are no errors."""


class RequestCounts:
    """Requests by code, and answered errors by codes of request and response."""

    def __init__(self) -> None:
        self.requests: Counter[int] = Counter()
        self.errors: Counter[tuple[int, int]] = Counter()

    def answered(self, request: int, response: int) -> None:
        """Count an answer, unless it is no error."""
        if response not in _EXPECTED:
            self.errors[request if request in _REQUESTS else -1, response] += 1

    def by_request(self) -> Mapping[str, float]:
        """Return the number of requests by the name of their code."""
        found: Counter[str] = Counter()
        for code, count in self.requests.items():
            found[_REQUESTS.get(code, OTHER)] += count
        return found

    def by_error(self) -> Mapping[tuple[str, ...], float]:
        """Return the number of errors by the names of request and response."""
        found: Counter[tuple[str, ...]] = Counter()
        for (request, response), count in self.errors.items():
            found[_REQUESTS.get(request, OTHER), _RESPONSES.get(response, OTHER)] += count
        return found


_REQUESTS = {code.value: code.name.lower() for code in RequestCode}
_RESPONSES = {code.value: code.name.lower() for code in ResponseCode}
