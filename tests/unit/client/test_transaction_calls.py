"""Requests of a transactional producer, and the errors that they raise."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.client.producer.transactions import Writer, add_partitions
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition

WRITER = Writer("id", 1, 0)
REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED.value


class Coordinator:
    """A client whose coordinator answers AddPartitionsToTxn with a code for each partition."""

    def __init__(self, codes: list[int]) -> None:
        partitions = [
            SimpleNamespace(partition_index=index, partition_error_code=code)
            for index, code in enumerate(codes)
        ]
        topic = SimpleNamespace(name="t", results_by_partition=partitions)
        self._response = SimpleNamespace(results_by_topic_v3_and_below=[topic])

    async def ask_coordinator(self, name: str, call: Any, kind: int) -> None:
        call._parse(self._response)


@pytest.mark.parametrize("at", [0, 1, 2])
def test_partition_that_cannot_be_added_is_named_not_its_neighbours(at: int) -> None:
    codes = [ErrorCode.OPERATION_NOT_ATTEMPTED.value] * 3
    codes[at] = REFUSED
    client: Any = Coordinator(codes)
    partitions = [TopicPartition("t", index) for index in range(3)]
    with pytest.raises(ApiError, match=f"t-{at} cannot be written to") as refused:
        asyncio.run(add_partitions(client, WRITER, partitions))
    assert refused.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
