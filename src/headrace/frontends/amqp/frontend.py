"""What a broker with listeners of AMQP begins with: `server.frontends` imports this by name."""

from typing import Protocol

from headrace.broker.broker import Broker
from headrace.frontends.amqp.alarms import ResourceAlarms
from headrace.frontends.amqp.bounds import bounds_of
from headrace.frontends.amqp.logins import UserLogins
from headrace.frontends.amqp.negotiation import settings_of
from headrace.frontends.amqp.queue_broker import QueueBroker
from headrace.frontends.amqp.session import AmqpFrontend


class Parts(Protocol):
    """What a frontend is made of. `server.frontends.Parts`."""

    @property
    def broker(self) -> Broker:
        """The broker whose clients are served."""


def frontend(parts: Parts) -> AmqpFrontend:
    """Return what clients of AMQP speak with."""
    broker = parts.broker
    config = broker.config
    logins = UserLogins(broker.users, broker.disk, guest=config.amqp_guest)
    queues = QueueBroker(broker.clock, broker.random, logins, bounds=bounds_of(config))
    made = AmqpFrontend(queues, settings_of(config, "headrace"), broker.clock)

    def free_bytes() -> int:
        return min(map(broker.disk.free_bytes, config.log_dirs))

    ResourceAlarms(
        queues.virtual_hosts.deadlines,
        queues.memory,
        free_bytes,
        config.amqp_disk_free_bytes_min,
        made.block,
    )
    return made
