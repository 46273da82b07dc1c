"""Whom a broker asks until somebody is set: nobody."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from headrace.model.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from headrace.broker.partition import Partition

MakeQueueTopic = Callable[[str], Awaitable[ApiError | None]]
"""Makes the topic of a declared queue where it has none yet; why not, else None."""


def ask_nobody(partition: "Partition") -> None:
    """Do nothing: there is no controller to ask."""


async def no_queue(topic: str) -> ApiError | None:
    """Tell that there is no such queue: nobody serves AMQP here."""
    return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic} is kept for an AMQP queue")
