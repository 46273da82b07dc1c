"""A run's brokers and topics, asked before its queries start: a wrong name ends it at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.client.sync import run
from headrace.model.errors import ErrorCode
from headrace.terminal.failure import not_found

if TYPE_CHECKING:
    from collections.abc import Collection

    from headrace.client.client import Client


def missing_topic(client: Client, topics: Collection[str]) -> str | None:
    """Return the error for the first of these topics that does not exist, with similar names.

    None if all exist, or are not visible to this client. Without topics only a broker's answer is
    awaited. ApiError, ClientError.
    """
    known = run(client.metadata(sorted(topics)))
    for topic in sorted(topics):
        if known.topics[topic].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return str(not_found("topic", topic, sorted(run(client.metadata()).topics)))
    return None
