"""Settings of a share group: its own value, or else the broker's."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.config.value_types import Value


class GroupSettings:
    """Looks up a share group's settings at each call, as they may change at run time."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker

    def window(self, group: str) -> int:
        """Return share.partition.max.record.locks: how many records of a partition may be in
        flight."""
        return self._number(group, "share.partition.max.record.locks")

    def deliveries_max(self, group: str) -> int:
        """Return share.delivery.count.limit: how often a record may be delivered."""
        return self._number(group, "share.delivery.count.limit")

    def lock_ms(self, group: str) -> int:
        """Return share.record.lock.duration.ms: how long a record stays acquired."""
        return self._number(group, "share.record.lock.duration.ms")

    def lock_seconds(self, group: str) -> float:
        """Return share.record.lock.duration.ms, converted to seconds."""
        return self.lock_ms(group) / 1000

    def read_committed(self, group: str) -> bool:
        """Return whether share.isolation.level is read_committed."""
        return self._value(group, "share.isolation.level") == "read_committed"

    def renews(self, group: str) -> bool:
        """Return share.renew.acknowledge.enable: whether members may renew locks (KIP-1222)."""
        return bool(self._value(group, "share.renew.acknowledge.enable"))

    def offset_reset(self, group: str) -> str:
        """Return share.auto.offset.reset: where a new group starts in a partition."""
        return str(self._value(group, "share.auto.offset.reset"))

    def _number(self, group: str, key: str) -> int:
        value = self._value(group, key)
        return value if isinstance(value, int) else 0

    def _value(self, group: str, key: str) -> "Value":
        broker = self._broker
        return broker.group_configs.value(group, key, broker.config)
