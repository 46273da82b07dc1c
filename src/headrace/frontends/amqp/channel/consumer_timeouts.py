"""Consumer timeouts: close channels that leave a delivery unacknowledged for too long.

Each channel with deliveries is checked when its oldest one may time out, and at least once a
minute, as in RabbitMQ: the oldest delivery changes with each acknowledgement, and is not tracked.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from headrace.ports.deadlines import Deadlines
from headrace.wire.amqp.methods import MethodId
from headrace.wire.amqp.reply_codes import ChannelClosing

if TYPE_CHECKING:
    from headrace.frontends.amqp.channel.channel import QueueChannel

log = logging.getLogger(__name__)

LOOK_SECONDS = 60.0
"""Longest time in seconds between two checks of a channel, so a timeout may be as late."""
_NO_METHOD = MethodId(0, 0)


class ConsumerTimeouts:
    """Timers for all channels that hold unacknowledged deliveries."""

    def __init__(self, deadlines: Deadlines, timeout_ms: int, soon: Callable[[], None]) -> None:
        """Create the timers.

        `timeout_ms`: for queues without one, 0: none. `soon` delivers requeued messages.
        """
        self._deadlines = deadlines
        self._timeout_ms = timeout_ms
        self._soon = soon

    def watch(self, channel: "QueueChannel") -> None:
        """Set the timer of a channel that may hold new deliveries, unless it is set."""
        look = channel.look_at_acks
        if look is None:
            look = self._deadlines.deadline(partial(self._look, channel))
            channel.look_at_acks = look
        if look.at is None and channel.unacked.held:
            now = self._deadlines.clock.monotonic()
            due_at = channel.unacked.next_deadline(self._timeout_ms)
            wait = LOOK_SECONDS if due_at is None else min(LOOK_SECONDS, due_at - now)
            look.set(max(0.0, wait))

    def _look(self, channel: "QueueChannel") -> None:
        try:
            channel.unacked.expire(self._deadlines.clock.monotonic(), self._timeout_ms)
        except ChannelClosing as error:
            log.warning(
                "user %s, %s: a consumer or a get did not acknowledge in time; the channel is"
                " closed, what it held goes back to its queues. Have clients acknowledge sooner, or"
                " set x-consumer-timeout of the queue or amqp.consumer.timeout.ms higher",
                channel.client.user, error,
            )  # fmt: skip
            channel.outlet.fail(error, _NO_METHOD)
            self._soon()
        else:
            self.watch(channel)
