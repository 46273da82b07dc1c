"""Who administrates a vhost of real queues without a socket, beside a client of AMQP."""

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.frontends.amqp.administration import Administration
from headrace.model.errors import ApiError, ErrorCode
from tests.support.amqp_channels import QueueClient, QueueRoom

DEFAULTS: dict[str, dict[str, Any]] = {
    "queue.declare": {"durable": True},
    "exchange.declare": {"type": "direct", "durable": True},
    "binding.create": {"to": "queue", "routing_key": ""},
    "binding.delete": {"to": "queue", "routing_key": ""},
}


class Vhost:
    """A vhost, who administrates it, and a client."""

    def __init__(self) -> None:
        self.room = QueueRoom()
        settings: Any = SimpleNamespace(definitions=self.room.broker._admission.definitions)
        self.administration = Administration(self.room.broker, settings, settings)
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
        return asyncio.run(self.administration.ask(operation, self.question(operation, **question)))

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
