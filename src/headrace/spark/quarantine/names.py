"""Names of the quarantine's topics and of its transactional id."""

from headrace.model.protocols import reserved_topics

QUARANTINE = ".quarantine"
DECISIONS = ".quarantine.decisions"
RETRY = ".retry"
HEADER = "headrace."
"""Prefix of the headers that are added to a quarantined record."""


def quarantine_topic(topic: str) -> str:
    """Return the topic that holds the refused records of a topic.

    Brokers refuse to create topics with the prefix of another protocol, `__amqp.`: the quarantine
    of such a topic has a name with one underscore less.
    """
    return (topic if reserved_topics(topic) is None else topic.removeprefix("_")) + QUARANTINE


def decisions_topic(pipeline: str, flow: str) -> str:
    """Return the topic that notes which batches of a flow are published."""
    return f"{pipeline}.{flow}{DECISIONS}"


def transactional_id(pipeline: str, flow: str) -> str:
    """Return the transactional id under which a flow's refused records are published."""
    return f"{pipeline}.{flow}{QUARANTINE}"


def retry_topic(pipeline: str, topic: str) -> str:
    """Return the topic to which refused records of a topic are sent to be read again."""
    return f"{pipeline}.{topic}{RETRY}"


def is_retry_topic(pipeline: str, topic: str) -> bool:
    """Return whether a topic is one of a pipeline's retry topics."""
    return topic.startswith(f"{pipeline}.") and topic.endswith(RETRY)


def settled_topic(pipeline: str, flow: str) -> str:
    """Return the topic that notes which quarantined records of a flow are replayed or dropped."""
    return f"{pipeline}.{flow}{QUARANTINE}.settled"


def replay_id(pipeline: str, flow: str) -> str:
    """Return the transactional id under which records of a flow are replayed or dropped."""
    return f"{pipeline}.{flow}{QUARANTINE}.replay"
