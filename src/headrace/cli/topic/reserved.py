"""Topics of other protocols, which `headrace topic list` does not show."""

from collections import Counter
from collections.abc import Iterable

from headrace.model.protocols import is_closed, reserved_topics
from headrace.terminal.output import counted, note


def note_reserved(topics: Iterable[str]) -> None:
    """Print how many of the topics store data of each other protocol that clients may read."""
    reserved = filter(None, (reserved_topics(topic) for topic in topics if not is_closed(topic)))
    for plural, count in Counter(each.plural for each in reserved).items():
        note(f"{counted(count, 'topic')} of {plural} not listed: --internal lists them")
