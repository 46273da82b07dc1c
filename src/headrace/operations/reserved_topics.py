"""Refusal of Kafka clients' changes to topics in which another protocol stores its data."""

from collections.abc import Callable

from headrace.model.errors import ApiError, ErrorCode
from headrace.model.protocol_row import ReservedTopics
from headrace.model.protocols import reserved_topics


def check_not_reserved(name: str, refused: Callable[[ReservedTopics], str]) -> None:
    """Raise ApiError POLICY_VIOLATION if the topic's protocol forbids this change to Kafka clients.

    `refused` returns the reason from the protocol's row; "" allows the change. Topics of no other
    protocol are always allowed.
    """
    reserved = reserved_topics(name)
    if reserved is not None and (why := refused(reserved)):
        text = f"{name} is kept for {reserved.kept_for}: {why}"
        raise ApiError(ErrorCode.POLICY_VIOLATION, text)
