"""Results of a Produce request's batches, answered once all of them are committed."""

from headrace.model.errors import ApiError
from headrace.net.pending import Pending
from headrace.wire.kafka.hot.produce import (
    PartitionResponse,
    ProduceRequest,
    ProduceResponse,
    TopicResponse,
    encode_response,
)


class BatchResults:
    """A request with several batches: their results, and the number not committed yet."""

    def __init__(self, version: int, request: ProduceRequest, pending: Pending) -> None:
        self.version = version
        self.request = request
        self.results: list[list[PartitionResponse]] = []
        self.waiting = 0
        self.pending = pending

    def committed(self, topic: int, at: int, error: ApiError | None) -> None:
        """Note that a batch is committed, or that it failed; the last one sends the answer."""
        if error is not None:
            before = self.results[topic][at]
            self.results[topic][at] = PartitionResponse(
                before.partition, error.code, before.base_offset, error_message=error.message
            )
        self.waiting -= 1
        if self.waiting == 0:
            self.pending.resolve(self.encoded())

    def encoded(self) -> bytes:
        """Return the body of a Produce response with the present results."""
        topics = [
            TopicResponse(topic.name, topic.topic_id, results)
            for topic, results in zip(self.request.topics, self.results, strict=True)
        ]
        return encode_response(self.version, ProduceResponse(topics))
