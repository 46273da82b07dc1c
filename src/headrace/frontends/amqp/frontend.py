"""What a broker with listeners of AMQP begins with: `server.frontends` imports this by name."""

from typing import Protocol

from headrace.broker.broker import Broker
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
    queues = QueueBroker(broker.clock, broker.random, logins)
    return AmqpFrontend(queues, settings_of(config, "headrace"), broker.clock)
