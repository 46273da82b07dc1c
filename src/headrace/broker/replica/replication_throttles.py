"""How fast replicas that are being moved are copied (KIP-73).

A topic names replicas (`leader.replication.throttled.replicas`, `follower.…`), a broker's settings
how many bytes a second of them it gives or fetches. Who is in sync is counted and never held up:
else a throttle would drive replicas out of the ISR. Windows and rate are Kafka's
(ReplicationQuotaManager, SimpleRate). All calls on the deciding thread.
"""

from collections.abc import Callable

from headrace.broker.metadata_image import ImageDelta, MetadataImage
from headrace.broker.rates import SimpleRate
from headrace.broker.watchable import Watched
from headrace.config.broker import BrokerConfig
from headrace.config.definitions import TOPIC
from headrace.config.keys.topic import FOLLOWERS_THROTTLED, LEADERS_THROTTLED
from headrace.config.value_types import LONG_MAX
from headrace.model.nouns import BrokerId

HOLD_SECONDS_MIN = 0.02
"""How long replicas are held back at least: less would be many small fetches."""
_ALL: frozenset[int] = frozenset()
_EVERYBODY = "*"


class ReplicationThrottle(Watched):
    """One side's throttle: of what is given to followers, or of what is fetched from leaders.

    Who watches is told when replicas, or the rate, are others: more may be had at once.
    """

    __slots__ = ("_now", "_rate", "_replicas", "_span_seconds", "_window_seconds", "bound")

    def __init__(self, now: Callable[[], float], windows: int, window_seconds: int) -> None:
        """`now`: monotonic seconds; the rate is that of `windows` of `window_seconds`."""
        super().__init__()
        self.bound = LONG_MAX
        """Bytes a second; LONG_MAX: without bound."""
        self._now = now
        self._rate = SimpleRate(windows, window_seconds * 1000)
        self._window_seconds = float(window_seconds)
        self._span_seconds = float(windows * window_seconds)
        self._replicas: dict[str, frozenset[int]] = {}
        """Partitions of which the replica here is throttled, by topic; none: of all of them."""

    @property
    def names_any(self) -> bool:
        """Whether any replica here is throttled, whatever the rate is."""
        return bool(self._replicas)

    def throttles(self, topic: str, partition: int) -> bool:
        """Tell whether the replica here is a throttled one."""
        found = self._replicas.get(topic)
        return found is not None and (not found or partition in found)

    @property
    def exceeded(self) -> bool:
        """Whether throttled replicas out of sync are to wait."""
        return self.bound != LONG_MAX and self._measure()[0] > self.bound

    def count(self, size: int) -> None:
        """Count `size` bytes of throttled replicas, in sync or not."""
        if size:
            self._rate.add(size, self._now() * 1000)

    def bytes_max(self, wanted: int) -> int:
        """Return the most bytes of one throttled replica to ask for, or to give, at once.

        No more than the whole span allows: what it has forgotten could not be waited for.
        """
        return min(wanted, int(self.bound * self._span_seconds))

    def hold_seconds(self) -> float:
        """Return after how long to look again: when the rate, with nothing added, is the bound.

        A window at most, as the rate may have fallen by a whole one then.
        """
        per_second, span_ms = self._measure()
        if not self.bound:
            return self._window_seconds
        over = (per_second - self.bound) / self.bound * span_ms / 1000
        return min(max(over, HOLD_SECONDS_MIN), self._window_seconds)

    @property
    def bytes_per_second(self) -> float:
        """The rate now."""
        return self._measure()[0]

    def _measure(self) -> tuple[float, float]:
        return self._rate.measure(self._now() * 1000)

    def set_bound(self, bound: int) -> None:
        """Take another rate."""
        if bound != self.bound:
            self.bound = bound
            self._wake()

    def set_replicas(self, topic: str, partitions: frozenset[int] | None) -> None:
        """Throttle exactly these partitions' replicas of a topic; None: none of them."""
        if self._replicas.get(topic) == partitions:
            return
        if partitions is None:
            del self._replicas[topic]
        else:
            self._replicas[topic] = partitions
        self._wake()


class ReplicationThrottles:
    """The throttles of a broker, as its settings and its topics' say."""

    def __init__(
        self, own: BrokerId, config: BrokerConfig, now: Callable[[], float], image: MetadataImage
    ) -> None:
        """Observe `image` for what topics name. `now`: monotonic seconds."""
        self._own = own
        windows, seconds = (
            config.replication_quota_window_num,
            config.replication_quota_window_size_seconds,
        )
        self.leader = ReplicationThrottle(now, windows, seconds)
        self.follower = ReplicationThrottle(now, windows, seconds)
        self.directories = ReplicationThrottle(
            now,
            config.alter_log_dirs_replication_quota_window_num,
            config.alter_log_dirs_replication_quota_window_size_seconds,
        )
        """Of what is copied between this broker's log directories: all of it is throttled."""
        self.reconfigure(config)
        image.observers.append(self._picture_changed)

    def reconfigure(self, config: BrokerConfig) -> None:
        """Take the broker's rates."""
        self.leader.set_bound(config.leader_replication_throttled_rate)
        self.follower.set_bound(config.follower_replication_throttled_rate)
        self.directories.set_bound(config.replica_alter_log_dirs_io_max_bytes_per_second)

    def _picture_changed(self, delta: ImageDelta, structural: bool) -> None:
        """Take what topics name."""
        del structural
        sides = ((LEADERS_THROTTLED, self.leader), (FOLLOWERS_THROTTLED, self.follower))
        for key, throttle in sides:
            for name in delta.removed:
                throttle.set_replicas(name, None)
            for topic in delta.topics:
                text = topic.config.get(key)
                found = None if not text else partitions_here(key, text, self._own)
                throttle.set_replicas(topic.name, found)


def partitions_here(key: str, text: str, own: BrokerId) -> frozenset[int] | None:
    """Return the partitions of which broker `own` holds a throttled replica; None: none.

    `_ALL` where all are. A text that is no list of replicas, which a tool may have written past
    the brokers, names none.
    """
    try:
        value = TOPIC[key].parse(text)
    except ValueError:
        return None
    words = value if isinstance(value, tuple) else ()
    if words == (_EVERYBODY,):
        return _ALL
    pairs = [word.partition(":") for word in words if word]
    return frozenset(int(index) for index, _, broker in pairs if int(broker) == own) or None
