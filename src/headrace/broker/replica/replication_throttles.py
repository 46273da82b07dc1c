"""`ReplicationThrottles`: limits on the speed of copying replicas (KIP-73).

Topics name the throttled replicas (`leader.replication.throttled.replicas`, `follower.…`), broker
settings the bytes per second that it sends or fetches for them. In-sync replicas are counted but
never delayed, or a throttle would remove them from the ISR. Windows and rate are Kafka's
(ReplicationQuotaManager, SimpleRate). For the deciding thread.
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
"""Shortest delay of replicas in seconds; shorter ones would cause many small fetches."""
_ALL: frozenset[int] = frozenset()
_EVERYBODY = "*"


class ReplicationThrottle(Watched):
    """A throttle of bytes sent to followers, or of bytes fetched from leaders.

    Watchers are called when its replicas or its rate change, as more may be copied at once.
    """

    __slots__ = ("_now", "_rate", "_replicas", "_span_seconds", "_window_seconds", "bound")

    def __init__(self, now: Callable[[], float], windows: int, window_seconds: int) -> None:
        """Make a throttle over `windows` windows of `window_seconds`; `now`: monotonic seconds."""
        super().__init__()
        self.bound = LONG_MAX
        """Bytes per second; LONG_MAX: no limit."""
        self._now = now
        self._rate = SimpleRate(windows, window_seconds * 1000)
        self._window_seconds = float(window_seconds)
        self._span_seconds = float(windows * window_seconds)
        self._replicas: dict[str, frozenset[int]] = {}
        """Throttled partitions by topic; an empty set: all partitions of the topic."""

    @property
    def names_any(self) -> bool:
        """Whether any replica on this broker is throttled, at any rate."""
        return bool(self._replicas)

    def throttles(self, topic: str, partition: int) -> bool:
        """Return whether this broker's replica of the partition is throttled."""
        found = self._replicas.get(topic)
        return found is not None and (not found or partition in found)

    @property
    def exceeded(self) -> bool:
        """Whether throttled replicas that are not in sync must wait."""
        return self.bound != LONG_MAX and self._measure()[0] > self.bound

    def count(self, size: int) -> None:
        """Count `size` bytes of throttled replicas, in sync or not."""
        if size:
            self._rate.add(size, self._now() * 1000)

    def bytes_max(self, wanted: int) -> int:
        """Return the most bytes of a throttled replica to fetch or send at once.

        At most what the whole span allows, as the rate forgets anything older.
        """
        return min(wanted, int(self.bound * self._span_seconds))

    def hold_seconds(self) -> float:
        """Return the seconds until the rate, with nothing added, is back at the limit.

        At most one window, as the rate may drop by a whole window then.
        """
        per_second, span_ms = self._measure()
        if not self.bound:
            return self._window_seconds
        over = (per_second - self.bound) / self.bound * span_ms / 1000
        return min(max(over, HOLD_SECONDS_MIN), self._window_seconds)

    @property
    def bytes_per_second(self) -> float:
        """The current rate in bytes per second."""
        return self._measure()[0]

    def _measure(self) -> tuple[float, float]:
        return self._rate.measure(self._now() * 1000)

    def set_bound(self, bound: int) -> None:
        """Set another limit in bytes per second."""
        if bound != self.bound:
            self.bound = bound
            self._wake()

    def set_replicas(self, topic: str, partitions: frozenset[int] | None) -> None:
        """Throttle exactly these partitions of a topic; None: none of them."""
        if self._replicas.get(topic) == partitions:
            return
        if partitions is None:
            del self._replicas[topic]
        else:
            self._replicas[topic] = partitions
        self._wake()


class ReplicationThrottles:
    """The throttles of a broker, from its settings and from topics' settings."""

    def __init__(
        self, own: BrokerId, config: BrokerConfig, now: Callable[[], float], image: MetadataImage
    ) -> None:
        """Make the throttles and observe `image` for topic settings; `now`: monotonic seconds."""
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
        """Copying between this broker's log directories; all of it is throttled."""
        self.reconfigure(config)
        image.observers.append(self._picture_changed)

    def reconfigure(self, config: BrokerConfig) -> None:
        """Apply the broker's rates."""
        self.leader.set_bound(config.leader_replication_throttled_rate)
        self.follower.set_bound(config.follower_replication_throttled_rate)
        self.directories.set_bound(config.replica_alter_log_dirs_io_max_bytes_per_second)

    def _picture_changed(self, delta: ImageDelta, structural: bool) -> None:
        """Apply the topics' throttled replicas."""
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
    """Return the partitions with a throttled replica on broker `own`; None: no partition.

    `_ALL` for all. An invalid text, which a tool may have written past the brokers, names none.
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
