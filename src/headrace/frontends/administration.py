"""What one frontend lets another ask of it for administrators: AMQP's is asked by Kafka's."""

from collections.abc import Mapping
from typing import Any, Protocol


class Administration(Protocol):
    """Who does what administrators ask."""

    def changes(self, name: str) -> bool:
        """Tell whether an operation changes something; ApiError: there is none."""

    async def ask(self, name: str, question: Mapping[str, Any]) -> object:
        """Do what is asked; returns the answer, a value of JSON. ApiError."""
