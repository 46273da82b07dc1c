"""Which batches are looked at on the event loop, and which by a thread."""

import pytest

from headrace.frontends.kafka.produce.record_validation import Task, in_passing
from headrace.model.nouns import TopicPartition
from headrace.record import batch as wire


@pytest.mark.parametrize(
    ("count", "codec", "target", "quick"),
    [
        (1, wire.Codec.NONE, None, True),
        (64, wire.Codec.NONE, None, True),
        (65, wire.Codec.NONE, None, False),
        (1, wire.Codec.ZSTD, None, False),
        (1, wire.Codec.NONE, wire.Codec.ZSTD, False),
    ],
)
def test_up_to_64_records_that_are_not_compressed_are_looked_at_in_passing(
    count: int, codec: wire.Codec, target: wire.Codec | None, quick: bool
) -> None:
    data = wire.build([wire.new_record(b"v", b"k")] * count, compression=codec)
    task = Task(TopicPartition("t", 0), True, target, None)
    assert in_passing(task, wire.parse_header(data)) is quick
