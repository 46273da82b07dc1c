"""What a coordinator appends in a producer's transaction is the present producer's."""

import pytest

from headrace.model.errors import ApiError, ErrorCode
from headrace.record.batch import build_pairs
from tests.unit.broker.test_flush_intervals import Place


@pytest.mark.parametrize("producer_id", [0, 7])
def test_an_outdated_producer_writes_nothing_the_first_of_all_ids_included(
    producer_id: int,
) -> None:
    place = Place()

    def append(epoch: int) -> None:
        batch = build_pairs([(b"k", b"v")], 0, producer_id=producer_id, producer_epoch=epoch)
        place.partition.append_internal(batch)

    append(5)
    with pytest.raises(ApiError) as refused:
        append(4)
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    append(5)
    assert place.log.end_offset == 2
