"""`Coordinator`: carries out commands on the declarations of the vhosts that this broker leads.

    command ──► the vhost's model: checked, changed ──► appended ──► committed ──► all brokers have
                     │ refused                             │ failed       applied it ──► answered
                     └──► answered, once earlier           └──► put back, and the log is read again
                          changes are committed

A vhost's coordinator is the leader of its partition of `__amqp.declarations` (ADR 76). Its table
has changes before they are committed.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from headrace.broker.metadata_image import ImageDelta
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.invariant import InvariantError
from headrace.model.nouns import BrokerId, Offset
from headrace.model.protocols import AMQP
from headrace.ports.callbacks import Done
from headrace.posix.awaiting import called_back
from headrace.queues.model.bindings import Removed
from headrace.queues.model.durability import Declared, Model
from headrace.queues.model.stored_model import QueueRecord
from headrace.queues.model.stored_records import encode_record, record_key
from headrace.queues.model.virtual_host import LINE_ENDS, VirtualHost
from headrace.queues.permissions.access import FULL_ACCESS, Access
from headrace.queues.queue_names import DECLARATIONS_TOPIC
from headrace.queues.refusals import Refused
from headrace.security.identity import Identity
from headrace.shards.led_shards import LedShards
from headrace.shards.shard import ShardPartition, World
from headrace.vhosts.declarations.commands import carry_out
from headrace.vhosts.declarations.confirmations import Confirmations
from headrace.vhosts.declarations.coordinator_shard import CoordinatorShard
from headrace.vhosts.declarations.log_polls import LogPolls
from headrace.vhosts.declarations.messages import Answer, Command, CommandKind, Part, Poll, Result
from headrace.vhosts.declarations.new_records import Deleted, NewRecords, deleting_record
from headrace.vhosts.declarations.partitions import DeclarationPartitions
from headrace.vhosts.declarations.queue_deletions import ChangeTopics, QueueDeletions
from headrace.vhosts.declarations.stored_changes import PARTITIONS
from headrace.vhosts.declarations.tables import DeclarationTables
from headrace.vhosts.declarations.takeover import Found, apply_found
from headrace.vhosts.policies.commands import check_readable
from headrace.vhosts.upgrades import check_type_known
from headrace.wire.amqp.model_methods import QueueDeclare, QueueDelete
from headrace.wire.amqp.settings import AmqpKeys

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.broker.partition import Partition
    from headrace.cluster.peers.conversation import Run
    from headrace.shards.journal import KeyValue
    from headrace.vhosts.declarations.followed_table import FollowedTable

_LATER = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
"""The error of a command that is to be repeated soon."""
_SUSPICION = ImageDelta()
"""The delta by which the metadata image reports that a broker is suspected to be dead, or not."""
RETRY_SECONDS = 1.0
"""Seconds after which a failed deletion is repeated, or one of the last coordinator continued."""
CLOSED_SECONDS = 10.0
"""Seconds after the deletion of a vhost's declarations in which its definition is deleted; until
then nothing is declared in it."""
AccessOf = Callable[[Identity, str], Access]
"""Returns a client's permissions in a vhost."""


class Coordinator:
    """The partitions of the log that this broker leads. On the deciding thread."""

    def __init__(
        self,
        broker: "Broker",
        tables: DeclarationTables,
        access: AccessOf,
        change_topics: ChangeTopics,
        run: "Run",
    ) -> None:
        """Create before the broker leads a partition.

        `change_topics` has the controller delete topics; `run` starts a task on the event loop.
        """
        self._broker = broker
        self._tables = tables
        self._access = access
        keys = AmqpKeys.of(broker.config.values)
        self._classic_replicas = keys.amqp_queue_replication_factor
        self._world = World(broker.clock, broker.random, broker.disk)
        self._led: LedShards[CoordinatorShard] = LedShards(
            DECLARATIONS_TOPIC,
            self._shard,
            image=lambda: broker.image,
            partitions=lambda: PARTITIONS,
        )
        self._partitions = DeclarationPartitions(broker, self._opened, self._led.resign)
        self._polls = LogPolls(broker, self._led)
        self._deletions = QueueDeletions(change_topics, run, self._append_deleted)
        self._collected: list[Declared | Removed] | None = None
        """Changes of the model by the command that is being carried out; None: no command is."""
        self._name_bytes = bytes(16)
        self._closed: dict[str, float] = {}
        """Vhosts whose declarations were deleted, with the monotonic time until which none of them
        is declared again."""
        self._repeated: set[CoordinatorShard] = set()
        """Partitions in which a deletion of transient queues is repeated soon."""
        broker.image.observers.append(self._image_changed)

    # Commands

    def leader_of(self, vhost: str) -> BrokerId:
        """Return the broker that coordinates a vhost; NO_LEADER: it has no coordinator."""
        return self._led.leader_of(self._tables.partition_of(vhost), self._broker.broker_id)

    def carry_out(self, command: Command, done: Done[Answer | ApiError]) -> None:
        """Carry out a command once; after errors of `LEADER_CHANGES` it may be repeated."""
        try:
            shard = self._led.of(command.vhost)
            model = self._model(command, shard)
        except ApiError as error:
            done(error)
            return
        key = _queue_being_deleted(command, shard.table)
        if key is not None:
            self._deletions.when_free(shard, key, lambda: self.carry_out(command, done))
            return
        identity = command.identity
        access = FULL_ACCESS if identity is None else self._access(identity, command.vhost)
        self._change(shard, model, command, access, done)

    def _model(self, command: Command, shard: CoordinatorShard) -> VirtualHost:
        """Return the model to change. Raises ApiError if it cannot be changed now."""
        host = self._tables.virtual_hosts.hosts.get(command.vhost)
        partition = self._partitions.at(shard.index)
        if host is None or partition is None:  # the vhost's definition arrives soon
            raise ApiError(_LATER)
        if partition.role.too_few_replicas:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "too few replicas are in sync")
        if command.kind is CommandKind.POLICIES:
            check_readable(self._broker.image)
        adds = command.adds
        if adds and self._closed.get(command.vhost, 0.0) > self._broker.clock.monotonic():
            raise ApiError(_LATER)
        if adds and partition.log.context.low:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, partition.log.context.low)
        if isinstance(command.method, QueueDeclare) and not self._is_there(
            command.broker, command.epoch
        ):
            # Its transient queues would be deleted, as those of a registration that has ended.
            raise ApiError(_LATER)
        return host.model

    def _change(
        self,
        shard: CoordinatorShard,
        model: VirtualHost,
        command: Command,
        access: Access,
        done: Done[Answer | ApiError],
    ) -> None:
        """Change a vhost's model, and append the changes."""
        if command.kind is CommandKind.VHOST_DELETED:
            self._closed[command.vhost] = self._broker.clock.monotonic() + CLOSED_SECONDS
        held = shard.table.hold()
        self._collected, self._name_bytes = [], command.name_bytes
        outcome: Answer
        try:
            check_type_known(self._broker.image, model, command.method)
            outcome = carry_out(model, command, self._broker.clock.wall_ms(), access)
        except Refused as refused:
            outcome = refused
        finally:
            collected, self._collected = self._collected, None

        def stored(offset: Offset | ApiError) -> None:
            if isinstance(offset, ApiError):
                self._read_again(shard)
                done(offset)
                return
            self._deletions.begin(shard, new.deleting)
            done(outcome._replace(offset=offset) if isinstance(outcome, Result) else outcome)

        brokers = list(self._broker.image.brokers_with(AMQP.feature))
        new = NewRecords(
            shard.table, held, model, command, brokers, self._topic_id, self._classic_replicas
        )
        records = new.of(collected)
        if records:
            shard.append(held, records, stored)
        else:
            shard.table.commit(held)
            shard.when_settled(stored)

    def vhost_deleted(self, vhost: str) -> None:
        """Delete declarations of a vhost whose definition is deleted, which no broker has now.

        There are some if they were declared between both deletions, at another coordinator.
        """
        self._closed.pop(vhost, None)
        try:
            shard = self._led.of(vhost)
        except ApiError:
            return
        changes: dict[bytes, Deleted | None] = {}
        for key, (of, record) in shard.table.records.items():
            if of != vhost or key in shard.table.deleting:
                continue
            changes[key] = None
            if isinstance(record, QueueRecord) and not record.home:
                changes[key] = vhost, deleting_record(vhost, record.name, self._topic_id)
        if changes:
            self._append_deleted(shard, changes)

    async def take_over(self, vhost: str, found: Sequence[Found]) -> bool:
        """Append declarations of nodes. A declaration that is refused is logged.

        False: another broker coordinates the vhost, or too few replicas are in sync.
        """
        try:
            shard = self._led.of(vhost)
        except ApiError:
            return False
        partition = self._partitions.at(shard.index)
        if partition is None or partition.role.too_few_replicas:
            return False
        held = shard.table.hold()
        records = apply_found(shard.table, held, found)
        outcome = await called_back(partial(shard.append, held, records))
        if isinstance(outcome, ApiError):
            self._read_again(shard)
        return not isinstance(outcome, ApiError)

    def _append_deleted(
        self, shard: CoordinatorShard, changes: Mapping[bytes, Deleted | None]
    ) -> bool:
        """Append changed records of deleted queues; None: the topic is deleted.

        Return False if too few replicas are in sync.
        """
        partition = self._partitions.at(shard.index)
        if partition is None or partition.role.too_few_replicas:
            return False
        held = shard.table.hold()
        records: list[KeyValue] = []
        left: dict[bytes, Deleted] = {}
        for key, deleted in changes.items():
            shard.table.note(held, key, deleted)
            records.append((key, None if deleted is None else encode_record(*deleted)))
            if deleted is not None:
                left[key] = deleted

        def stored(offset: Offset | ApiError) -> None:
            if isinstance(offset, ApiError):
                self._read_again(shard)
            else:
                self._deletions.begin(shard, left)

        shard.append(held, records, stored)
        return True

    def _topic_id(self, topic: str) -> str:
        info = self._broker.image.topics.get(topic)
        return "" if info is None else info.topic_id.hex()

    def _read_again(self, shard: CoordinatorShard) -> None:
        """Read the end of the log again: an append has failed, so the table is ahead of it."""
        index, partition = shard.index, self._partitions.at(shard.index)
        if self._led.at(index) is shard and shard.is_active and partition is not None:
            self._led.resign(index)
            if partition.refusal is None:
                self._opened(index, partition)

    # What the models report: `queues.model.durability.Declarations`

    def added(self, host: Model, declared: Declared) -> None:
        """Note a declaration of the present command."""
        if self._collected is not None:
            self._collected.append(declared)

    def removed(self, host: Model, removed: Removed) -> None:
        """Note deletions of the present command."""
        if self._collected is not None:
            self._collected.append(removed)

    def name_bytes(self) -> bytes:
        """Return the 16 bytes for the name of a queue that the present command leaves to us."""
        return self._name_bytes

    # Polls

    async def polled(self, broker: BrokerId, poll: Poll) -> list[Part]:
        """Answer a follower's long poll; its earlier one is answered without records."""
        return await self._polls.polled(broker, poll)

    # Partitions and registrations

    def close(self) -> None:
        """Refuse all later commands: the broker stops."""
        self._broker.image.observers.remove(self._image_changed)
        self._led.close()
        self._polls.close()

    def _opened(self, index: int, partition: "Partition") -> None:
        self._led.lead(index, partition, partition.leader_epoch)
        shard = self._led.at(index)
        if shard is not None:
            shard.when_loaded(lambda: self._continue(shard))

    def _continue(self, shard: CoordinatorShard) -> None:
        """Continue the deletions of the last coordinator."""

        def begin() -> None:
            if shard.is_active:
                self._deletions.begin(shard, shard.table.deleted())

        # Not at once: this term may have begun because such an append has failed.
        self._broker.clock.call_later(RETRY_SECONDS, begin)
        self._delete_ended(shard)

    def _shard(self, index: int, partition: ShardPartition, epoch: int) -> CoordinatorShard:
        led = self._partitions.at(index)
        if led is None:
            raise InvariantError("a shard is made of a partition that was opened")
        return CoordinatorShard(
            index,
            partition,
            epoch,
            self._world,
            self._tables.of(index),
            Confirmations(self._broker.clock, self._followers(), self._is_suspected),
            lambda: led.high_watermark,
            self._polls.wake,
            self._deletions.dropped,
            self._tables.visited,
        )

    def _followers(self) -> list[BrokerId]:
        own = self._broker.broker_id
        return [broker for broker in self._broker.image.brokers_with(AMQP.feature) if broker != own]

    def _is_suspected(self, broker: BrokerId) -> bool:
        image = self._broker.image
        info = image.brokers.get(broker)
        return info is not None and image.suspects.get(broker) == info.epoch

    def _image_changed(self, delta: ImageDelta, structural: bool) -> None:
        for shard in tuple(self._led) if structural else ():
            shard.confirmations.look()
            if delta.brokers is not None or delta == _SUSPICION:
                self._delete_ended(shard)

    def _is_there(self, broker: int, epoch: int) -> bool:
        """Tell whether a broker is still registered, and is not suspected to be dead."""
        info = self._broker.image.brokers.get(BrokerId(broker))
        registered = info is not None and info.epoch == epoch
        return registered and not self._is_suspected(BrokerId(broker))

    def _delete_ended(self, shard: CoordinatorShard) -> None:
        """Delete the transient queues of brokers that are dead, until it is done.

        Also of those that are suspected to be, as RabbitMQ does for a node that is down.
        """

        def deleted(answer: Answer | ApiError) -> None:
            if isinstance(answer, ApiError) and shard not in self._repeated:
                self._repeated.add(shard)
                self._broker.clock.call_later(RETRY_SECONDS, lambda: self._delete_ended(shard))

        self._repeated.discard(shard)
        if not shard.is_active:
            return
        for broker, epoch in shard.table.homes():
            if self._is_there(broker, epoch):
                continue
            for key in shard.table.of_home(broker, epoch):
                vhost, record = shard.table.records.get(key, ("", None))
                if not isinstance(record, QueueRecord):
                    continue
                command = Command(
                    vhost,
                    CommandKind.QUEUE_ENDED,
                    self._broker.broker_id,
                    epoch,
                    method=QueueDelete(queue=record.name),
                )
                self.carry_out(command, deleted)


def _queue_being_deleted(command: Command, table: "FollowedTable") -> bytes | None:
    """Return the key of the queue that a command declares, if it is not deleted completely."""
    method = command.method
    if not table.deleting or not isinstance(method, QueueDeclare):
        return None
    record = QueueRecord(method.queue.translate(LINE_ENDS), False, {})
    key = record_key(command.vhost, record)
    return key if key in table.deleting else None
