"""Names of the quarantine's topics and of its transactional id."""

QUARANTINE = ".quarantine"
DECISIONS = ".quarantine.decisions"
HEADER = "headrace."
"""Prefix of the headers that are added to a quarantined record."""


def quarantine_topic(topic: str) -> str:
    """Return the topic that holds the refused records of a topic."""
    return topic + QUARANTINE


def decisions_topic(pipeline: str, flow: str) -> str:
    """Return the topic that notes which batches of a flow are published."""
    return f"{pipeline}.{flow}{DECISIONS}"


def transactional_id(pipeline: str, flow: str) -> str:
    """Return the transactional id under which a flow's refused records are published."""
    return f"{pipeline}.{flow}{QUARANTINE}"
