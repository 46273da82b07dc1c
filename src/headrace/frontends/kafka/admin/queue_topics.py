"""What Kafka's clients may not do to the topics of AMQP queues: who declared a queue changes it."""

from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import is_queue_topic


def check_no_queue_topic(name: str, instead: str) -> None:
    """Refuse what would make, change or delete a queue's topic. ApiError POLICY_VIOLATION.

    `instead`: how to do it by AMQP.
    """
    if is_queue_topic(name):
        raise ApiError(ErrorCode.POLICY_VIOLATION, f"{name} is kept for an AMQP queue: {instead}")
