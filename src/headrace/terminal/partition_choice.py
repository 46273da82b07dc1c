"""Partitions as arguments: `topic`, `topic:0,1`."""

from collections.abc import Sequence

from headrace.client.calls.metadata import Metadata
from headrace.model.nouns import TopicPartition
from headrace.terminal.failure import UsageError, not_found


def chosen_partitions(known: Metadata, texts: Sequence[str], flag: str) -> list[TopicPartition]:
    """Return the partitions that `topic` or `topic:0,1` name, sorted.

    Raises UsageError or CommandError.
    """
    chosen = []
    for text in texts:
        topic, _, numbers = text.partition(":")
        check_topic(known, topic)
        all_there = [partition.partition for partition in known.topics[topic].partitions]
        wanted = (
            [_number(flag, text, digits) for digits in numbers.split(",")] if numbers else all_there
        )
        if missing := sorted(set(wanted) - set(all_there)):
            raise UsageError(f"{flag} {text}: there is no partition {missing[0]}".strip())
        chosen += [TopicPartition(topic, number) for number in wanted]
    return sorted(set(chosen))


def check_topic(known: Metadata, name: str) -> None:
    """Raise CommandError if the topic does not exist."""
    if name not in known.topics:
        raise not_found("topic", name, sorted(known.topics))


def listed(brokers: Sequence[int]) -> str:
    """Return brokers as commands name them: `1,2,3`."""
    return ",".join(map(str, brokers))


def _number(flag: str, text: str, digits: str) -> int:
    if not (digits.isascii() and digits.isdigit()):
        raise UsageError(f"{flag} {text}: must be topic or topic:0,1".strip())
    return int(digits)
