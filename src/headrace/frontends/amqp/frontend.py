"""What a broker with listeners of AMQP begins with: `server.frontends` imports this by name."""

from typing import TYPE_CHECKING, Protocol

from headrace.broker.broker import Broker
from headrace.frontends.amqp.access import Admission
from headrace.frontends.amqp.administration import Administration
from headrace.frontends.amqp.adoption import Adoption
from headrace.frontends.amqp.logins import UserLogins
from headrace.frontends.amqp.negotiation import settings_of
from headrace.frontends.amqp.queue_broker import QueueBroker
from headrace.frontends.amqp.session import AmqpFrontend
from headrace.model.invariant import InvariantError
from headrace.security.configured import parse_super_users

if TYPE_CHECKING:
    from headrace.cluster.controller_port import ControllerPort


class Parts(Protocol):
    """What a frontend is made of. `server.frontends.Parts`."""

    @property
    def broker(self) -> Broker:
        """The broker whose clients are served."""

    @property
    def controller(self) -> "ControllerPort":
        """Who has vhosts and users written."""


def frontend(parts: Parts) -> AmqpFrontend:
    """Return what clients of AMQP speak with."""
    broker, settings = parts.broker, parts.controller.settings
    config, amqp = broker.config, settings.amqp
    if amqp is None:
        raise InvariantError("a broker with listeners of AMQP has its vhosts and users")
    definitions = amqp.definitions
    super_users = parse_super_users(config.super_users)
    adoption = Adoption(settings.users, amqp, broker.random)
    logins = UserLogins(
        broker.users,
        definitions,
        broker.disk,
        lambda host: _failed(broker, host),
        adoption.begin,
        super_users.__contains__,
    )
    admission = Admission(definitions, broker.authorizer, broker.audit)
    queues = QueueBroker(broker.clock, broker.random, logins, admission)
    administration = Administration(queues, settings.users, amqp)
    return AmqpFrontend(
        queues, settings_of(config, "headrace"), broker.clock, administration, adoption.stop
    )


def _failed(broker: Broker, host: str) -> float:
    """Count a failed login; returns for how many seconds its client waits."""
    config = broker.config
    return broker.failed_attempts.delay_seconds(
        host,
        first_ms=config.connection_failed_authentication_delay_ms,
        most_ms=config.connection_failed_authentication_delay_max_ms,
    )
