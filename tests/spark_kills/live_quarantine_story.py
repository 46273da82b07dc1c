"""Real drivers with quarantines, killed at named points: each record in one place of each flow."""

import json
from collections import Counter
from pathlib import Path

from headrace.record.batch import Record
from tests.spark.kit import TIME_MS, Topics
from tests.spark.sink_kit import committed_rows, numbers_of
from tests.spark_kills.live_story import PARTITIONS, RECORDS_A_PLAY, LiveStory
from tests.support.spark.tables import read


def is_malformed(number: int) -> bool:
    """Whether the decoder refuses a record."""
    return number % 7 == 3


def fails(number: int) -> bool:
    """Whether the row of a record fails the check."""
    return number % 5 == 0


class LiveQuarantineStory(LiveStory):
    """A topic that is written into a topic and a Delta table."""

    module = "tests.spark_kills.live_quarantine_driver"

    def __init__(self, topics: Topics, place: Path, seed: int) -> None:
        super().__init__(topics, place, seed, "delta")
        self.sources = self.sources[:1]

    def append(self) -> None:
        """Write more records, numbered through all partitions."""
        for partition in range(PARTITIONS):
            numbers = range(self.written, self.written + RECORDS_A_PLAY)
            records = [
                Record(
                    at,
                    TIME_MS + number,
                    b"k%d" % number,
                    b'{"id":"%d"}' % number if is_malformed(number) else b'{ "id":%d }' % number,
                )
                for at, number in enumerate(numbers)
            ]
            self.topics.append(self.sources[0], partition, records)
            self.written += RECORDS_A_PLAY

    def check(self) -> None:
        """Raise AssertionError unless each record is in one place of each flow, once."""
        refused = [n for n in range(self.written) if is_malformed(n) or fails(n)]
        sound = sorted(set(range(self.written)) - set(refused))
        bootstrap = self.topics.bootstrap
        assert numbers_of(bootstrap, self.targets[0]) == sound
        assert sorted(read(self.place / "table", self.kind).column("id").to_pylist()) == sound
        found: dict[str, Counter[int]] = {"topic": Counter(), "table": Counter()}
        for row in committed_rows(bootstrap, f"{self.sources[0]}.quarantine"):
            headers = {header["key"]: header["value"].decode() for header in row["headers"]}
            number = int(json.loads(row["value"])["id"])
            stage = "decode" if is_malformed(number) else "check"
            assert (row["key"], headers["headrace.stage"]) == (b"k%d" % number, stage)
            found[headers["headrace.flow"]][number] += 1
        for flow, counts in found.items():
            assert counts == Counter(refused), flow
            self.counts[f"{flow}: refused, each once"] = counts.total()
            self.counts[f"{flow}: written, each once"] = len(sound)
