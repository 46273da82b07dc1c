"""Waiting of `headrace consume` for topics that do not exist yet."""

import time
from collections.abc import Sequence

from headrace.client.client import Client
from headrace.client.sync import run
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import topic_name_problem
from headrace.terminal.failure import UsageError, not_found, topic_elsewhere
from headrace.terminal.output import note

ASK_SECONDS = 0.5
"""Seconds between two Metadata requests for missing topics."""


def await_topics(
    client: Client, names: Sequence[str], *, wait: bool, seconds: float | None
) -> frozenset[str]:
    """Wait until all topics exist; return those created meanwhile, whose records are all new.

    Without `wait`, or after `seconds`, a missing topic is a CommandError. UsageError: an invalid
    name.
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
                if problem is not None and topic_elsewhere(name):
                    raise not_found("topic", name, everything)
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
        # Waiting does not help: the broker returns it also for a topic that does not exist.
        topic = known.topics.get(name)
        if topic and topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"topic {name}")
    # The error may be a missing leader, although the topic exists.
    everything = run(client.metadata()).topics
    return [name for name in names if name not in everything]
