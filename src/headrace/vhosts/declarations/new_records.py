"""`NewRecords`: the records by which the log has what a command has changed."""

from collections.abc import Callable, Iterable, Sequence

from headrace.model.nouns import BrokerId
from headrace.queues.model.bindings import Removed
from headrace.queues.model.declaration_table import Applied
from headrace.queues.model.declarations import ConnectionOwner, DeclaredQueue
from headrace.queues.model.durability import Declared
from headrace.queues.model.exchanges import Exchange
from headrace.queues.model.policies.vhost_policy import VhostPolicy
from headrace.queues.model.stored_model import (
    QueueRecord,
    Record,
    binding_record,
    exchange_record,
    policy_record,
    queue_record,
    removed_records,
)
from headrace.queues.model.stored_records import encode_record, record_key
from headrace.queues.model.virtual_host import VirtualHost
from headrace.queues.queue_names import queue_topic
from headrace.shards.journal import KeyValue
from headrace.vhosts.declarations.followed_table import FollowedTable, Held
from headrace.vhosts.declarations.messages import Command, CommandKind
from headrace.vhosts.declarations.planned_replicas import planned_replicas

Deleted = tuple[str, QueueRecord]
"""A vhost's name and the `deleting` record of a queue in it."""


class NewRecords:
    """The changes of one command, as records that the table has and the log is to have."""

    def __init__(
        self,
        table: FollowedTable,
        held: Held,
        model: VirtualHost,
        command: Command,
        brokers: Sequence[BrokerId],
        topic_id: Callable[[str], str],
        classic_replicas: int,
    ) -> None:
        """`held` gets the former values of the records. `brokers`: those that may have queues.

        `classic_replicas`: the number of replicas of a classic queue.
        `topic_id` returns a topic's id in hexadecimal digits; empty: it is not known.
        """
        self._table = table
        self._held = held
        self._model = model
        self._command = command
        self._brokers = brokers
        self._topic_id = topic_id
        self._classic_replicas = classic_replicas
        self.deleting: dict[bytes, Deleted] = {}
        """Deleted queues whose topics are to be deleted, by the keys of their records."""

    def of(self, changes: Iterable[Declared | Removed]) -> list[KeyValue]:
        """Return the records of changes in their order; the table notes them."""
        found: list[KeyValue] = []
        for change in changes:
            if isinstance(change, Removed):
                self._held.later.append((self._model.name, Applied(removed=change)))
                found += (self._deletion(record) for record in removed_records(change))
            elif (record := self._record(change)) is not None:
                found.append(self._declaration(record))
                if isinstance(change, VhostPolicy):
                    self._held.later.append((self._model.name, Applied(added=change)))
                else:
                    self._table.report(self._model.name, Applied(added=change))
        return found

    def _deletion(self, record: Record) -> KeyValue:
        """Return the deletion of a record; a durable queue has its topic deleted first."""
        vhost = self._model.name
        key = record_key(vhost, record)
        _, present = self._table.records.get(key, ("", None))
        if isinstance(record, QueueRecord) and not (
            isinstance(present, QueueRecord) and present.home
        ):
            record = deleting_record(vhost, record.name, self._topic_id)
            self.deleting[key] = vhost, record
            self._table.note(self._held, key, (vhost, record))
            return key, encode_record(vhost, record)
        self._table.note(self._held, key, None)
        return key, None

    def _declaration(self, record: Record) -> KeyValue:
        vhost = self._model.name
        key = record_key(vhost, record)
        self._table.note(self._held, key, (vhost, record))
        return key, encode_record(vhost, record)

    def _record(self, declared: Declared) -> Record | None:
        match declared:
            case Exchange():
                return exchange_record(declared, transient=True)
            case DeclaredQueue():
                return self._queue_record(declared)
            case VhostPolicy():
                return policy_record(declared)
            case _:
                return binding_record(self._model, declared, transient=True)

    def _queue_record(self, queue: DeclaredQueue) -> Record | None:
        record = queue_record(queue, self._home(queue))
        if record is None:
            return None
        if self._command.kind is CommandKind.QUEUE_REPLICAS:
            return record._replace(replicas=self._command.replicas)
        home, led = self._command.broker, self._table.planned_leaders
        present = self._model.table.present
        return record._replace(
            replicas=planned_replicas(
                queue,
                home,
                self._brokers,
                led,
                self._classic_replicas,
                None if present is None else present.arguments_of(queue),
            )
        )

    def _home(self, queue: DeclaredQueue) -> tuple[int, ...]:
        """Return where a transient queue's messages are: on the broker of the client."""
        command = self._command
        connection = queue.owner.connection if isinstance(queue.owner, ConnectionOwner) else 0
        return command.broker, command.epoch, connection


def deleting_record(vhost: str, queue: str, topic_id: Callable[[str], str]) -> QueueRecord:
    """Return the record of a deleted queue that may have a topic; `topic_id`: see `NewRecords`."""
    found = topic_id(queue_topic(vhost, queue))
    return QueueRecord(queue, False, {}, deleting=True, topic_id=found)
