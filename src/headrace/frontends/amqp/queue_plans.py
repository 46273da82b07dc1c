"""Operations on the members of queues: which brokers may be members, and which are planned.

Queues with messages are moved by reassignment of their topics' partitions (Kafka's
AlterPartitionReassignments), which the controller carries out.
"""

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.config.descriptions import Alteration, AlterOperation
from headrace.frontends.amqp.listing import no_vhost
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.protocols import feature_of
from headrace.operations.queues import ListQueueBrokers, PlanQueue, QueueBrokerDescription
from headrace.posix.awaiting import called_back
from headrace.queues.queue_names import DECLARATIONS_TOPIC, queue_topic
from headrace.queues.refusals import Refused
from headrace.vhosts.declarations.messages import CommandKind
from headrace.wire.amqp.model_methods import QueueDeclare

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.cluster.controller_port import SettingsPort
    from headrace.frontends.amqp.queue_broker import QueueBroker
    from headrace.frontends.amqp.queue_members import QueueMembers
    from headrace.operations.arguments import Arguments
    from headrace.operations.permissions import Caller
    from headrace.operations.registry import Do


class QueuePlans:
    """The members that administrators plan for queues. On the deciding thread."""

    def __init__(
        self,
        broker: "Broker",
        queues: "QueueBroker",
        settings: "SettingsPort",
        members: "QueueMembers",
    ) -> None:
        self._broker = broker
        self._queues = queues
        self._settings = settings
        self._members = members
        self.operations: dict[type[Arguments[Any]], Do] = {
            PlanQueue: self._plan,
            ListQueueBrokers: self._brokers,
        }
        """The operations by the type of their arguments, as `operations.registry` calls them."""

    async def _brokers(
        self, caller: "Caller", asked: ListQueueBrokers
    ) -> list[QueueBrokerDescription]:
        image = self._broker.image
        able = image.brokers_with(feature_of(DECLARATIONS_TOPIC))
        led = Counter(
            self._members.of(host.name, queue).leader
            for host in self._queues.virtual_hosts.hosts.values()
            for queue in host.model.queues.values()
            if queue.durable
        )
        return [
            QueueBrokerDescription(broker, broker in able, broker in image.drained, led[broker])
            for broker in sorted(info.broker_id for info in image.reachable_brokers())
        ]

    async def _plan(self, caller: "Caller", asked: PlanQueue) -> None:
        """Store the planned members of a queue, and how many of them confirm a publish."""
        declarations, vhost, members = self._queues.declarations, asked.vhost, asked.members
        if declarations is None:
            text = "this broker has no cluster: each of its queues has one member"
            raise ApiError(ErrorCode.INVALID_REQUEST, text)
        if vhost not in self._queues.virtual_hosts.hosts:
            raise no_vhost(vhost)
        able = self._broker.image.brokers_with(feature_of(DECLARATIONS_TOPIC))
        if not members or len(set(members)) < len(members):
            raise ValueError("a queue has one member at least, and each broker once")
        for broker in members:
            if broker in self._broker.image.brokers and broker not in able:
                text = f"broker {broker} has no listener for clients of queues"
                raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
        command = declarations.command(
            vhost, CommandKind.QUEUE_REPLICAS, QueueDeclare(queue=asked.name)
        )
        try:
            await called_back(partial(declarations.ask, command._replace(replicas=members)))
        except Refused as refused:
            raise ApiError(ErrorCode.RESOURCE_NOT_FOUND, str(refused)) from None
        topic = queue_topic(vhost, asked.name)
        if topic in self._broker.image.topics:
            majority = Alteration(
                "min.insync.replicas", AlterOperation.SET, str(len(members) // 2 + 1)
            )
            await self._settings.alter_topic(topic, [majority])
