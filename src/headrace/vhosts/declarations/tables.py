"""`DeclarationTables`: a broker's table of each partition of the log of declarations."""

from typing import TYPE_CHECKING

from headrace.broker.broker import Broker
from headrace.queues.model.declaration_table import Applied
from headrace.queues.model.stored_model import Record
from headrace.queues.model.vhost_table import VhostTable
from headrace.queues.queue_names import DECLARATIONS_TOPIC
from headrace.shards.group_partition import partition_for
from headrace.vhosts.declarations.followed_table import FollowedTable
from headrace.vhosts.declarations.stored_changes import PARTITIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.ports.callbacks import Done
    from headrace.queues.engine.virtual_hosts import VirtualHosts


class DeclarationTables:
    """The declarations of all vhosts on one broker, by partition. On the deciding thread."""

    def __init__(self, broker: Broker) -> None:
        """Create without tables. `virtual_hosts` must be set before the broker joins."""
        self._broker = broker
        self.virtual_hosts: VirtualHosts
        """The vhosts that the declarations are applied to."""
        self.changed: list[Callable[[str, Applied], None]] = []
        """Called with a vhost's name and each change of it by a record."""
        self.loaded: Callable[[], None] = lambda: None
        """Called once a table has had all committed records for the first time."""
        self.visited: Callable[[Done[None]], None] = lambda done: done(None)
        """Calls back once queues and exchanges have the settings of all policies, or late."""
        self._tables: dict[int, FollowedTable] = {}

    def of(self, index: int) -> FollowedTable:
        """Return the table of a partition."""
        table = self._tables.get(index)
        if table is None:
            now = self._broker.clock.monotonic()
            table = self._tables[index] = FollowedTable(
                self._table_of, self._tell, now, self._has_vhost, lambda: self.loaded()
            )
        return table

    def of_vhost(self, vhost: str) -> FollowedTable:
        """Return the table of the partition that has a vhost's declarations."""
        return self.of(self.partition_of(vhost))

    def partition_of(self, vhost: str) -> int:
        """Return the partition that has a vhost's declarations."""
        return partition_for(vhost, self.count)

    @property
    def count(self) -> int:
        """The number of partitions."""
        topic = self._broker.image.topics.get(DECLARATIONS_TOPIC)
        return PARTITIONS if topic is None else len(topic.partitions)

    @property
    def are_loaded(self) -> bool:
        """Whether each table has had all committed records, or there is no log."""
        if DECLARATIONS_TOPIC not in self._broker.image.topics:
            return True
        return all(self.of(index).is_loaded for index in range(self.count))

    def has_loaded(self, vhost: str) -> bool:
        """Tell whether the table of a vhost has had all committed records, or there is no log."""
        if DECLARATIONS_TOPIC not in self._broker.image.topics:
            return True
        return self.of_vhost(vhost).is_loaded

    def record(self, vhost: str, key: bytes) -> Record | None:
        """Return the record of a declaration's key; None: it is not declared."""
        located = self.of_vhost(vhost).records.get(key)
        return None if located is None else located[1]

    def _table_of(self, vhost: str) -> VhostTable:
        hosts = self.virtual_hosts.hosts
        host = hosts.get(vhost)
        return (self.virtual_hosts.add(vhost) if host is None else host).model.table

    def _has_vhost(self, vhost: str) -> bool:
        return vhost in self.virtual_hosts.hosts

    def _tell(self, vhost: str, applied: Applied) -> None:
        for changed in self.changed:
            changed(vhost, applied)
