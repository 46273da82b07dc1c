"""Topics that `consume` is to read, waited for where they are not there yet."""

import time
from collections.abc import Sequence

from headrace.cli.shared.failure import UsageError, not_found
from headrace.cli.shared.output import note
from headrace.client.client import Client
from headrace.client.sync import run
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import topic_name_problem

ASK_SECONDS = 0.5
"""Between two questions for topics that are waited for."""


def await_topics(
    client: Client, names: Sequence[str], *, wait: bool, seconds: float | None
) -> frozenset[str]:
    """Return those of the topics that came while they were waited for: their records are all new.

    `wait`: otherwise, or after `seconds`, a missing topic is a CommandError. UsageError for what
    can be no topic's name.
    """
    first_missing: frozenset[str] = frozenset()
    began = time.monotonic()
    while True:
        missing = _missing(client, names)
        if not missing:
            if first_missing:
                note(f"{' and '.join(sorted(first_missing))}: created")
            return first_missing
        everything = sorted(run(client.metadata()).topics)
        error = not_found("topic", missing[0], everything)
        if not wait or (seconds is not None and time.monotonic() - began >= seconds):
            raise error
        if not first_missing:
            first_missing = frozenset(missing)
            for name in missing:
                problem = topic_name_problem(name)
                if problem is not None:
                    raise UsageError(f"{name!r} is not a valid topic name: {problem}")
            how_long = "for it" if seconds is None else f"{seconds:g} s for it"
            note(f"{error}; waiting {how_long}")
        client.known = None
        time.sleep(ASK_SECONDS)


def _missing(client: Client, names: Sequence[str]) -> list[str]:
    known = run(client.metadata(list(names)))
    found = {name for name, topic in known.topics.items() if not topic.error_code}
    if set(names) <= found:
        return []
    for name in names:
        # No wait makes it visible: it is an answer, also where the topic does not exist.
        topic = known.topics.get(name)
        if topic and topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"topic {name}")
    # An error may be a leader that is not there yet: the topic is, then.
    everything = run(client.metadata()).topics
    return [name for name in names if name not in everything]
