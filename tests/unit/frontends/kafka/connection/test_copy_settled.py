"""CopySettled: frames of settled positions from a leader to its follower, by the wire."""

from typing import Any

from headrace.copies.messages import CopyAnswer, CopyQuestion
from headrace.delivery.settled_state import FrameName
from headrace.log.text_files import read_file
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId
from headrace.queue_stores.log.settled_files import settled_path
from headrace.server.cluster.remote_copies import copy_call
from headrace.testing.sim.cluster import SimCluster
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.peer_messages import PEER_MESSAGES
from tests.support.cluster.peer_kit import play, topic, two
from tests.support.queues.followers import frame
from tests.support.sim.cluster import until

WHOLE = frame(1, epoch=0, whole=True)
FIRST = FrameName(0, 1)
REQUEST = bytes.fromhex(
    "00000007000000010001746964656e7469666965723132333435360000000300000005000000040000000000000009"
    "00000005000000000000000a00000000000000140000000000000006ffffffffffffffff000000036162"
    "63"
)
RESPONSE = bytes.fromhex(
    "00000000000100060000000500000000000000090000000000000003000000000000000c000000026465"
)


def test_follower_writes_the_frames_of_its_leader() -> None:
    async def story(cluster: SimCluster) -> None:
        first, other = await two(cluster)
        made = await topic(cluster, 0, 1)
        broker = cluster.brokers[1].broker
        await until(lambda: bool(broker.followed))
        (partition,) = broker.followed.values()
        place = partition.topic_partition
        question = CopyQuestion(place, made.topic_id, 0, WHOLE, last=FIRST, whole_bytes=len(WHOLE))
        own = BrokerId(0)
        assert await other.call(copy_call(own, [question])) == [CopyAnswer(last=FIRST)]
        path = settled_path(partition.log.directory)
        assert read_file(broker.disk, path) == WHOLE
        stale = question._replace(leader_epoch=-1)
        unknown = question._replace(topic_id=b"u" * 16)
        answers = await other.call(copy_call(own, [stale, unknown]))
        assert [answer.error for answer in answers] == [
            ErrorCode.FENCED_LEADER_EPOCH,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        (leads,) = await first.call(copy_call(own, [question]))
        assert leads.error is ErrorCode.NOT_LEADER_OR_FOLLOWER

    play(story)


def test_leader_reaches_its_follower_by_its_own_connection() -> None:
    async def story(cluster: SimCluster) -> None:
        await two(cluster)
        made = await topic(cluster, 0, 1)
        follower = cluster.brokers[1].broker
        await until(lambda: bool(follower.followed))
        (partition,) = follower.followed.values()
        links = cluster.brokers[0].cluster_links
        assert links is not None
        told: list[Any] = []
        remote = links.settled_copies._remote
        question = CopyQuestion(partition.topic_partition, made.topic_id, 0)
        remote.ask(BrokerId(1), [question], told.append)
        remote.ask(BrokerId(5), [question], told.append)
        await until(lambda: len(told) == 2)
        lost = [each for each in told if isinstance(each, ApiError)]
        assert [error.code for error in lost] == [ErrorCode.NETWORK_EXCEPTION]
        assert [CopyAnswer()] in told

    play(story)


def test_messages_have_the_bytes_of_their_first_version() -> None:
    messages = PEER_MESSAGES[ApiKey.COPY_SETTLED]
    request = {
        "brokerId": 7,
        "partitions": [
            {
                "topicName": "t", "topicId": b"identifier123456", "partitionIndex": 3,
                "leaderEpoch": 5, "followsEpoch": 4, "followsNumber": 9, "lastEpoch": 5,
                "lastNumber": 10, "wholeBytes": 20, "position": 6, "readFrom": -1,
                "content": b"abc",
            }
        ],
    }  # fmt: skip
    response = {
        "errorCode": 0,
        "partitions": [
            {
                "errorCode": 6, "lastEpoch": 5, "lastNumber": 9, "partEnd": 3, "fileBytes": 12,
                "content": b"de",
            }
        ],
    }  # fmt: skip
    assert messages.request.encode(request, 0) == REQUEST
    assert messages.request.decode(REQUEST, 0) == request
    assert messages.response.encode(response, 0) == RESPONSE
    assert messages.response.decode(RESPONSE, 0) == response
