"""Records of a retry topic that a flow has still to read."""

from collections.abc import Mapping

from headrace.client.client import Client
from headrace.client.sync import run
from headrace.model.errors import ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.pipeline.quarantine.records import read_committed
from headrace.spark.quarantine.names import HEADER, retry_topic


def positions_on_the_way(
    client: Client, pipeline: str, topic: str, flow: str, read: Mapping[TopicPartition, int]
) -> set[tuple[int, int]]:
    """Return partition and offset, in their topic, of the records that a flow has still to read.

    `read`: end offsets of the flow's last finished batch. ApiError, ClientError.
    """
    name = retry_topic(pipeline, topic)
    known = run(client.metadata([name]))
    if known.topics[name].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return set()
    found = set()
    for _, record in read_committed(client, name, read):
        info = {key: value or b"" for key, value in record.headers if key.startswith(HEADER)}
        mine = (info.get(f"{HEADER}flow"), info.get(f"{HEADER}topic"))
        if mine == (flow.encode(), topic.encode()):
            found.add((int(info[f"{HEADER}partition"]), int(info[f"{HEADER}offset"])))
    return found
