"""How many records new flows begin with, from the first and the end offsets of their topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.client.calls.offsets import EARLIEST, LATEST, list_offsets
from headrace.client.sync import run
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition, counted
from headrace.pipeline.plan.compare import Verdict

if TYPE_CHECKING:
    from collections.abc import Collection

    from headrace.client.client import Client
    from headrace.pipeline.plan.planned import ProjectPlan


class BeginRecords(NamedTuple):
    """The records from which a new flow begins."""

    topics: dict[str, int | None]
    """Offsets between begin and end by topic, at least its records; None: no such topic."""

    @property
    def text(self) -> str:
        """The records in words."""
        counts = [count for count in self.topics.values() if count is not None]
        missing = [topic for topic, count in self.topics.items() if count is None]
        words = [f"{topic} does not exist yet" for topic in missing]
        if len(self.topics) == 1 and counts:
            words = [_records(counts[0])]
        elif counts:
            known = [(topic, n) for topic, n in self.topics.items() if n is not None]
            each = [f"{_records(n)} of {topic}" for topic, n in known]
            words = [*each, *words]
        return ", ".join(words)


def new_topics(plan: ProjectPlan) -> dict[str, tuple[str, ...]]:
    """Return the topics of the flows that begin at the earliest records, by flow."""
    return {
        flow.name: tuple(dict.fromkeys(each.topic for each in plan.prints[flow.name].sources))
        for flow in plan.flows
        if flow.comparison.verdict is Verdict.NEW and flow.name in plan.prints
    }


def count_records(client: Client, topics: Collection[str]) -> dict[str, int | None]:
    """Return the committed records of topics, counted by offsets; None for one that is missing.

    ApiError, ClientError.
    """
    known = run(client.metadata(sorted(topics)))
    found: dict[str, int | None] = {}
    for topic in topics:
        code = known.topics[topic].error_code
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            found[topic] = None
            continue
        if code:
            raise ApiError(ErrorCode(code), f"topic {topic}")
        partitions = range(len(known.topics[topic].partitions))
        places = [TopicPartition(topic, number) for number in partitions]
        begins = run(list_offsets(client, dict.fromkeys(places, EARLIEST)))
        ends = run(list_offsets(client, dict.fromkeys(places, LATEST), read_committed=True))
        found[topic] = sum(max(0, ends[at].offset - begins[at].offset) for at in places)
    return found


def _records(count: int) -> str:
    return f"{count:,} {counted(count, 'record').partition(' ')[2]}"
