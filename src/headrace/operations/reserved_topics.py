"""Topics that another protocol keeps its data in: what Kafka's clients may not do to them."""

from collections.abc import Callable

from headrace.model.errors import ApiError, ErrorCode
from headrace.model.protocols import ReservedTopics, reserved_topics


def check_not_reserved(name: str, refused: Callable[[ReservedTopics], str]) -> None:
    """Refuse what a topic's protocol does not allow Kafka's clients. ApiError POLICY_VIOLATION.

    `refused` returns why from the protocol's row; empty: it is allowed.
    """
    reserved = reserved_topics(name)
    if reserved is not None and (why := refused(reserved)):
        text = f"{name} is kept for {reserved.kept_for}: {why}"
        raise ApiError(ErrorCode.POLICY_VIOLATION, text)
