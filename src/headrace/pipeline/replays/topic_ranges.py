"""The offsets that a replay reads of each topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.client.calls.offsets import EARLIEST
from headrace.model.errors import HeadraceError
from headrace.spark.source.cluster import Cluster
from headrace.spark.source.options import Bound, parse_options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.spark.source.offsets import Position


class RecordsLostError(HeadraceError):
    """Records that a replay needs no longer exist."""


def range_of(
    options: Mapping[str, str], topic: str, since_ms: int | None, end: Position
) -> dict[int, tuple[int, int]]:
    """Return by partition the first offset whose record is not older than `since_ms`, and the end.

    `options`: of the source, without a topic. `since_ms` None: all records. RecordsLostError if
    records since then were deleted, or the topic was recreated; SourceError.
    """
    parsed = parse_options({**options, "subscribe": topic}, streaming=False)
    ends = {at: offset for at, offset in end.offsets.items() if at.topic == topic}
    with Cluster(parsed.bootstrap, parsed.fetching) as cluster:
        view = cluster.look(parsed.subscription)
        before, now = end.ids.get(topic), view.ids().get(topic)
        if before is not None and now is not None and before != now:
            raise RecordsLostError(f"topic {topic} was deleted and created again")
        earliest = cluster.ends(ends, EARLIEST)
        first = (
            earliest if since_ms is None else cluster.not_before(Bound(timestamp=since_ms), ends)
        )
    lost = [
        at for at, offset in earliest.items() if offset > 0 and ends[at] > 0 and first[at] <= offset
    ]
    if lost:
        shown = ", ".join(f"{at} begins at {earliest[at]}" for at in sorted(lost)[:3])
        raise RecordsLostError(f"records that the replay needs were deleted: {shown}")
    return {at.partition: (min(first[at], ends[at]), ends[at]) for at in ends}
