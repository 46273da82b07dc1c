"""Who administrates a vhost of real queues without a socket, beside a client of AMQP."""

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.broker.metadata_image import BrokerInfo, MetadataImage
from headrace.cluster.settings.vhost_settings import ChangeUser, ChangeVhost
from headrace.frontends.amqp.administration import Administration
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId
from headrace.operations.permissions import Caller, Surface
from headrace.operations.registry import Operations
from headrace.queues.permissions.definitions import Definitions
from headrace.security.audit import Audit
from headrace.security.authorizer import AllowsAll
from headrace.security.identity import Identity
from tests.support.amqp.channels import QueueClient, QueueRoom
from tests.support.coordination.groups_kit import HandClock

DEFAULTS: dict[str, dict[str, Any]] = {
    "queue.declare": {"durable": True},
    "exchange.declare": {"type": "direct", "durable": True},
    "binding.create": {"to": "queue", "routing_key": ""},
    "binding.delete": {"to": "queue", "routing_key": ""},
}


class SettingsInMemory:
    """Definitions that no store keeps. `SettingsPort`, `VhostSettingsPort`."""

    def __init__(self, definitions: Definitions) -> None:
        self.definitions = definitions
        self.users = self
        self.problem: ApiError | None = None
        """Why nothing can be changed."""

    async def change_vhost(self, name: str, change: ChangeVhost) -> None:
        """Change a vhost, or raise the problem."""
        if self.problem is not None:
            raise self.problem
        self.definitions.put_vhost(name, change(self.definitions.vhosts.get(name)))

    async def change_user(self, name: str, change: ChangeUser) -> None:
        """Change a user, or raise the problem."""
        if self.problem is not None:
            raise self.problem
        self.definitions.put_user(name, change(self.definitions.users.get(name)))


class Vhost:
    """A vhost, who administrates it, and a client."""

    def __init__(self) -> None:
        self.room = QueueRoom()
        self.settings = SettingsInMemory(self.room.broker._admission.definitions)
        settings: Any = self.settings
        broker: Any = SimpleNamespace(
            authorizer=AllowsAll(),
            audit=Audit(HandClock()),
            broker_id=BrokerId(1),
            image=MetadataImage("cluster"),
            config=SimpleNamespace(min_insync_replicas=1),
        )
        broker.image.brokers = {BrokerId(1): BrokerInfo(BrokerId(1), ())}
        self.operations = Operations(broker)
        self.operations.add(Administration(broker, self.room.broker, settings, settings).operations)
        self.client: QueueClient = self.room.client()

    @property
    def model(self) -> Any:
        """The model of the vhost."""
        return self.room.broker.virtual_hosts.hosts["/"].model

    def question(self, operation: str, **question: Any) -> Mapping[str, Any]:
        """Return a question with what is the same in most."""
        return {"vhost": "/", **DEFAULTS.get(operation, {}), **question}

    def ask(self, operation: str, **question: Any) -> Any:
        """Ask, and wait for the answer."""
        return asyncio.run(self.called(operation, **question))

    async def called(self, operation: str, **question: Any) -> Any:
        """Return the answer, on the loop that runs."""
        caller = Caller(Identity("127.0.0.1", "PLAINTEXT"), Surface.KAFKA)
        return await self.operations.call_json(
            caller, operation, self.question(operation, **question)
        )

    def refused(self, operation: str, **question: Any) -> tuple[ErrorCode, str]:
        """Ask what is refused; the code and the text."""
        with pytest.raises(ApiError) as error:
            self.ask(operation, **question)
        return error.value.code, error.value.message or ""

    def bindings(self, source: str) -> list[tuple[str, str, str, dict[str, Any]]]:
        """Those from an exchange, without its name."""
        return [
            (*binding.destination, binding.routing_key, dict(binding.arguments))
            for binding in self.model.exchanges[source].bindings.values()
        ]
