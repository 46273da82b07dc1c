"""`SharedAlarms`: memory and disk alarms of all brokers of a cluster block publishers on each.

    low here ──► this broker's publishers are blocked
        └──────► NoteAlarm to each other broker with queues, again until it has answered
    NoteAlarm ─► publishers here are blocked while that registration lasts and its resource is low

A broker that registers is told of the alarms of others, and knows of none before. In calm nothing
is sent.
"""

import logging
import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from headrace.model.errors import ApiError
from headrace.model.nouns import BrokerId
from headrace.model.protocols import AMQP
from headrace.ports.callbacks import Done
from headrace.vhosts.alarms import TELL_SECONDS, reason_of

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.broker.metadata_image import ImageDelta

_logger = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
"""Seconds after which an alarm that a broker has not answered is sent again."""
NONE_LOW: frozenset[str] = frozenset()


class Alarm(NamedTuple):
    """The resources that are low on a registration of a broker; later alarms are greater."""

    epoch: int
    """The epoch of the broker's registration."""
    number: int
    low: frozenset[str]


Send = Callable[[BrokerId, Alarm, Done[ApiError | None]], None]
"""Sends an alarm of this broker to another one, once."""


class SharedAlarms:
    """The alarms of all brokers, as one of them knows them. On the deciding thread."""

    def __init__(
        self,
        broker: "Broker",
        epoch: Callable[[], int],
        send: Send,
        block: Callable[[str | None], None],
    ) -> None:
        """Begin without alarms.

        `epoch` returns the epoch of this broker's registration. `block` is called with the reason
        that publishers are sent, or with None when they may go on.
        """
        self._broker = broker
        self._epoch = epoch
        self._send = send
        self._block = block
        self._low = NONE_LOW
        """The resources that are low on this broker."""
        self._number = 0
        self._others: dict[BrokerId, Alarm] = {}
        self._told: dict[BrokerId, tuple[int, Alarm]] = {}
        """The alarm that each broker has, with the epoch of that broker's registration."""
        self._asked: set[BrokerId] = set()
        """Brokers that have not answered, or are to be sent an alarm again."""
        self._unsure: set[BrokerId] = set()
        """Brokers that may or may not have the alarm that they were sent last."""
        self._reason: str | None = None
        self._tell_from = -math.inf
        broker.image.observers.append(self._image_changed)

    def close(self) -> None:
        """Send nothing more: the broker stops."""
        self._broker.image.observers.remove(self._image_changed)
        self._low = NONE_LOW
        self._unsure.clear()

    def changed(self, low: frozenset[str]) -> None:
        """Note the resources that are low on this broker from now on."""
        if low != self._low:
            self._low = low
            self._number += 1
            self._look()
            self._tell_all()

    def noted(self, broker: BrokerId, alarm: Alarm) -> None:
        """Note an alarm of another broker, unless a later one is known."""
        if alarm > self._others.get(broker, Alarm(-1, -1, NONE_LOW)):
            self._others[broker] = alarm
            self._look()
            self._log(broker, alarm)

    def _image_changed(self, delta: "ImageDelta", structural: bool) -> None:
        if delta.brokers is not None:
            present = self._broker.image.brokers
            for broker, alarm in tuple(self._others.items()):
                info = present.get(broker)
                if info is not None and info.epoch > alarm.epoch:
                    del self._others[broker]
            self._look()
            self._tell_all()

    def _look(self) -> None:
        """Block publishers if a resource of a registered broker is low, or let them go on."""
        low = self._low
        for broker, alarm in self._others.items():
            info = self._broker.image.brokers.get(broker)
            if info is not None and info.epoch == alarm.epoch:
                low |= alarm.low
        reason = reason_of(low)
        if reason != self._reason:
            self._reason = reason
            self._block(reason)

    def _log(self, broker: BrokerId, alarm: Alarm) -> None:
        """Log another broker's alarm, at most once in `TELL_SECONDS`."""
        now = self._broker.clock.monotonic()
        if alarm.low and now >= self._tell_from:
            self._tell_from = now + TELL_SECONDS
            _logger.warning(
                "broker %d is %s: publishers of all brokers are paused (connection.blocked) until"
                " it is not; its log says more", broker, reason_of(alarm.low),
            )  # fmt: skip

    # This broker's alarm

    def _tell_all(self) -> None:
        for broker in self._broker.image.brokers_with(AMQP.feature):
            if broker != self._broker.broker_id:
                self._tell(broker)

    def _tell(self, broker: BrokerId) -> None:
        """Send this broker's alarm to another one that does not have it."""
        info = self._broker.image.brokers.get(broker)
        if info is None or broker in self._asked:
            return
        epoch = self._epoch()
        told_to, told = self._told.get(broker, (-1, Alarm(-1, 0, NONE_LOW)))
        knows = told.low if (told_to, told.epoch) == (info.epoch, epoch) else NONE_LOW
        if knows == self._low and broker not in self._unsure:
            return
        alarm = Alarm(epoch, self._number, self._low)
        self._asked.add(broker)
        self._send(broker, alarm, partial(self._answered, broker, info.epoch, alarm))

    def _answered(self, broker: BrokerId, epoch: int, alarm: Alarm, error: ApiError | None) -> None:
        if error is None:
            self._asked.discard(broker)
            self._unsure.discard(broker)
            self._told[broker] = (epoch, alarm)
            self._tell(broker)
        else:
            self._unsure.add(broker)
            self._broker.clock.call_later(RETRY_SECONDS, partial(self._again, broker))

    def _again(self, broker: BrokerId) -> None:
        self._asked.discard(broker)
        self._tell(broker)
