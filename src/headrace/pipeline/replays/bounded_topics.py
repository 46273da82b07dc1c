"""The topics of a replay as bounded DataFrames: `hp.topic` inside of a function that it calls."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.pipeline.replays.topic_ranges import range_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from headrace.pipeline.declarations import TopicSource
    from headrace.pipeline.replays.live_end import LiveEnd
    from headrace.pipeline.replays.replay import Offsets
    from headrace.pipeline.run.topic_streams import ClusterAddress


@dataclass
class BoundedTopics:
    """Reads each topic from a time on up to the live flow's end."""

    spark: SparkSession
    cluster: ClusterAddress
    end: LiveEnd
    since_ms: Callable[[TopicSource], int | None]
    offsets: Offsets = field(default_factory=dict)
    """Offsets that were read so far."""

    def load(self, source: TopicSource, options: dict[str, str]) -> DataFrame:
        """Return the records of a topic. RecordsLostError, ReplayError, SourceError."""
        cluster = self.cluster.options()
        ranges = range_of(cluster, source.name, self.since_ms(source), self.end.end_of(source.name))
        known = self.offsets.get(source.name, {})
        for number, (first, end) in ranges.items():
            earlier = min(first, known.get(str(number), (first, end))[0])
            self.offsets.setdefault(source.name, {})[str(number)] = (earlier, end)
        starting, ending = (
            json.dumps({source.name: {str(number): pair[side] for number, pair in ranges.items()}})
            for side in (0, 1)
        )
        reader = self.spark.read.format("headrace").options(
            **cluster,
            assign=json.dumps({source.name: sorted(ranges)}),
            startingOffsets=starting,
            endingOffsets=ending,
            **options,
        )
        return reader.load()
