"""Pulls from a group's retry topic before it exists.

The topic is created with the first message that is sent back. RocketMQ creates it with the group,
and its clients and tools count on it: they ask for its route to find the group's brokers. So a
group that is known has a route of its retry topic, and its pulls wait until the topic exists.
"""

from typing import TYPE_CHECKING

from headrace.frontends.long_poll import LongPoll
from headrace.frontends.rocketmq.answers import QUEUE_EMPTY, RemotingAnswer
from headrace.model.errors import HeadraceError
from headrace.net.pending import Pending
from headrace.wire.rocketmq.codes import ResponseCode
from headrace.wire.rocketmq.requests import PullFlag, PullRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.frontends.rocketmq.call import RemotingCall

SUSPEND_MS_MAX = 120_000
"""Longest wait of a pull for messages, in ms."""


class RetryWait:
    """A pull that waits for its topic."""

    __slots__ = ("_call", "_poll", "_pull", "_request", "_waiting")

    def __init__(
        self, call: "RemotingCall", request: PullRequest, pull: "Callable[[RemotingCall], None]"
    ) -> None:
        """Wait, if the client allows it; `pull` does the request once the topic exists."""
        self._call = call
        self._request = request
        self._pull = pull
        if not request.system_flag & PullFlag.SUSPEND or request.suspend_ms <= 0:
            self._expire()
            return
        broker, group = call.broker, request.consumer_group
        self._waiting = call.waiting = Pending()
        poll = self._poll = LongPoll(
            broker.broker.clock,
            broker.deadlines,
            self._waiting,
            seconds=min(request.suspend_ms, SUSPEND_MS_MAX) / 1000,
            bytes_min=1,
            look=self._look,
            expire=self._expire,
            on_end=lambda: broker.parked.remove(group, poll.wake),
        )
        broker.parked.add(group, poll.wake)

    def _look(self) -> None:
        """Do the pull if its topic exists, or refuse it if its group is switched off."""
        call, request = self._call, self._request
        try:
            call.broker.check_may_consume(request.consumer_group)
            if call.broker.topic_if_any(request.topic) is None:
                return
            self._end()
            self._pull(call)
        except HeadraceError as error:
            self._end()
            call.fail(error)

    def _end(self) -> None:
        self._call.waiting = None
        self._poll.end()
        self._waiting.resolve(None)

    def _expire(self) -> None:
        fields = {
            "suggestWhichBrokerId": "0",
            "groupSysFlag": "0",
            "nextBeginOffset": str(max(self._request.queue_offset, 0)),
            "maxOffset": "0",
            "minOffset": "0",
            "topicSysFlag": "0",
        }
        self._call.answer(RemotingAnswer(ResponseCode.PULL_NOT_FOUND, fields, b"", QUEUE_EMPTY))
