"""Convert pings for the right to lead, and their answers, to and from messages (API 20004)."""

from headrace.broker.replica.leading_right import PartitionKey, Ping, PingAnswer
from headrace.client.calls.call import check
from headrace.cluster.peers.peer_call import Fields, PeerCall
from headrace.model.errors import ErrorCode
from headrace.model.nouns import BrokerId, LeaderEpoch
from headrace.wire.kafka.api import ApiKey


def ping_call(own: BrokerId, ping: Ping) -> PeerCall[PingAnswer]:
    """Return the request of broker `own` for a ping."""
    fields = {"brokerId": own, "incarnation": ping.incarnation, "number": ping.number}
    return PeerCall(ApiKey.LEASE_PING, fields, _answer)


def answer_fields(answer: PingAnswer) -> Fields:
    """Return the response's fields for an answer."""
    topics: dict[bytes, list[Fields]] = {}
    for (topic_id, index), epoch in answer.epochs.items():
        topics.setdefault(topic_id, []).append({"partitionIndex": index, "leaderEpoch": epoch})
    return {
        "errorCode": ErrorCode.NONE,
        "incarnation": answer.incarnation,
        "number": answer.number,
        "topics": [
            {"topicId": topic_id, "partitions": partitions}
            for topic_id, partitions in topics.items()
        ],
    }


def _answer(response: Fields) -> PingAnswer:
    check(response["errorCode"])
    epochs: dict[PartitionKey, LeaderEpoch] = {
        (topic["topicId"], partition["partitionIndex"]): LeaderEpoch(partition["leaderEpoch"])
        for topic in response["topics"]
        for partition in topic["partitions"]
    }
    return PingAnswer(response["incarnation"], response["number"], epochs)
