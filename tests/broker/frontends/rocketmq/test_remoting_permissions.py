"""Each request through a RocketMQ listener asks for its permission, and no other suffices."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pytest

from headrace.frontends.rocketmq.administration.handlers import ADMIN_HANDLERS
from headrace.security.acl import AclBinding, AclEntry, AclFilter, Permission
from headrace.security.authorizer import CLUSTER_NAME, Operation, Resource, ResourceType
from headrace.security.identity import ANONYMOUS
from headrace.testing import BrokerThread
from headrace.wire.rocketmq.codes import RequestCode, ResponseCode
from headrace.wire.rocketmq.fastjson import encode_body
from headrace.wire.rocketmq.message_ids import physical_offset_of
from tests.support.rocketmq.client import RemotingClient
from tests.support.rocketmq.kit import SETTINGS, code, fields, port_of

TOPIC, GROUP = Resource(ResourceType.TOPIC, "t"), Resource(ResourceType.GROUP, "CG")
READ_TOPIC, READ_GROUP = (Operation.READ, TOPIC), (Operation.READ, GROUP)
DESCRIBE_TOPIC = (Operation.DESCRIBE, TOPIC)
LOCKED = encode_body({"consumerGroup": "CG", "clientId": "c", "mqSet": []})
Right = tuple[Operation, Resource]


class Asked(NamedTuple):
    """A request, and the permissions that it needs."""

    code: RequestCode
    fields: Mapping[str, object]
    body: bytes
    needs: tuple[Right, ...]
    refused: ResponseCode = ResponseCode.NO_PERMISSION


SEND = {
    "a": "PG", "b": "t", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 5, "h": 0, "i": "",
}  # fmt: skip
REPLY_TOPIC = "DefaultCluster_REPLY_TOPIC"
REPLY = SEND | {"b": REPLY_TOPIC, "i": "REPLY_TO_CLIENT\x01nobody\x02"}
PULL = {
    "consumerGroup": "CG", "topic": "t", "queueId": 0, "queueOffset": 0, "maxMsgNums": 1,
    "sysFlag": 4, "commitOffset": 0, "suspendTimeoutMillis": 0, "subscription": "*",
    "subVersion": 0,
}  # fmt: skip
QUEUE = {"topic": "t", "queueId": 0, "timestamp": 0}
OFFSET = {"consumerGroup": "CG", "topic": "t", "queueId": 0, "commitOffset": 1}
HEARTBEAT = encode_body({"clientID": "c", "consumerDataSet": [{"groupName": "CG"}]})
NEW = {"topic": "new", "readQueueNums": 1, "writeQueueNums": 1}
GROWN = {"topic": "t", "readQueueNums": 9, "writeQueueNums": 9}
NARROW = Resource(ResourceType.TOPIC, "narrow")
NARROWED = {"topic": "narrow", "readQueueNums": 1, "writeQueueNums": 1, "perm": 4}
RESET = {"group": "CG", "topic": "t", "timestamp": 0}
STATE = {"group": "CG", "consumerGroup": "CG", "clientId": "c", "topic": "t"}
DESCRIBE_GROUP = (Operation.DESCRIBE, GROUP)
CLUSTER = Resource(ResourceType.CLUSTER, CLUSTER_NAME)
ALTER_CLUSTER = (Operation.ALTER_CONFIGS, CLUSTER)
VALUE = {"namespace": "n", "key": "k", "value": "v", "brokerName": "headrace-0",
         "producerGroup": "PG", "statsName": "TOPIC_PUT_NUMS", "statsKey": "t"}  # fmt: skip
CLONED = {"srcGroup": "CG", "destGroup": "OG", "topic": "t"}
DIRECTLY = STATE | {"msgId": "7F000001000027110000000000000000"}
READS_CLUSTER = (
    RequestCode.GET_BROKER_CONFIG, RequestCode.GET_BROKER_RUNTIME_INFO,
    RequestCode.GET_ALL_CONSUMER_OFFSET, RequestCode.GET_KV_CONFIG,
    RequestCode.GET_KVLIST_BY_NAMESPACE, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, RequestCode.CLEAN_UNUSED_TOPIC,
    RequestCode.GET_BROKER_CONSUME_STATS, RequestCode.GET_NAMESRV_CONFIG,
    RequestCode.GET_PRODUCER_CONNECTION_LIST, RequestCode.VIEW_BROKER_STATS_DATA,
)  # fmt: skip
CHANGES_CLUSTER = (
    RequestCode.UPDATE_BROKER_CONFIG, RequestCode.PUT_KV_CONFIG, RequestCode.DELETE_KV_CONFIG,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER, RequestCode.ADD_WRITE_PERM_OF_BROKER,
)  # fmt: skip
REQUESTS = [
    Asked(RequestCode.SEND_MESSAGE_V2, SEND, b"x", ((Operation.WRITE, TOPIC),)),
    Asked(
        RequestCode.RECALL_MESSAGE, {"topic": "t", "recallHandle": "none"}, b"",
        ((Operation.WRITE, TOPIC),),
    ),
    Asked(
        RequestCode.SEND_REPLY_MESSAGE_V2, REPLY, b"x",
        ((Operation.WRITE, Resource(ResourceType.TOPIC, REPLY_TOPIC)),),
    ),
    Asked(RequestCode.PULL_MESSAGE, PULL, b"", (READ_TOPIC, READ_GROUP)),
    Asked(RequestCode.LITE_PULL_MESSAGE, PULL, b"", (READ_TOPIC, READ_GROUP)),
    Asked(RequestCode.QUERY_CONSUMER_OFFSET, OFFSET, b"", (READ_TOPIC, READ_GROUP)),
    Asked(RequestCode.UPDATE_CONSUMER_OFFSET, OFFSET, b"", (READ_TOPIC, READ_GROUP)),
    Asked(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, QUEUE, b"", (DESCRIBE_TOPIC,)),
    Asked(RequestCode.GET_MAX_OFFSET, QUEUE, b"", (DESCRIBE_TOPIC,)),
    Asked(RequestCode.GET_MIN_OFFSET, QUEUE, b"", (DESCRIBE_TOPIC,)),
    Asked(RequestCode.GET_EARLIEST_MSG_STORETIME, QUEUE, b"", (DESCRIBE_TOPIC,)),
    Asked(RequestCode.HEART_BEAT, {}, HEARTBEAT, (READ_GROUP,)),
    Asked(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "CG"}, b"", (READ_GROUP,)),
    Asked(RequestCode.LOCK_BATCH_MQ, {}, LOCKED, (READ_GROUP,)),
    Asked(RequestCode.UNLOCK_BATCH_MQ, {}, LOCKED, (READ_GROUP,)),
    Asked(
        RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "t"}, b"", (DESCRIBE_TOPIC,),
        ResponseCode.TOPIC_NOT_EXIST,
    ),
    Asked(
        RequestCode.UPDATE_AND_CREATE_TOPIC, NEW, b"",
        ((Operation.CREATE, Resource(ResourceType.TOPIC, "new")),),
    ),
    Asked(RequestCode.UPDATE_AND_CREATE_TOPIC, GROWN, b"", ((Operation.ALTER, TOPIC),)),
    Asked(
        RequestCode.UPDATE_AND_CREATE_TOPIC, NARROWED, b"",
        ((Operation.DESCRIBE, NARROW), (Operation.ALTER_CONFIGS, NARROW)),
    ),
    Asked(
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, b'{"groupName":"CG"}',
        ((Operation.ALTER_CONFIGS, GROUP),),
    ),
    Asked(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, RESET, b"", (READ_TOPIC, READ_GROUP)),
    Asked(RequestCode.QUERY_MESSAGE, QUEUE | {"key": "k"}, b"", (READ_TOPIC,)),
    Asked(
        RequestCode.QUERY_CONSUME_QUEUE, QUEUE | {"index": 0, "count": 1}, b"", (READ_TOPIC,),
    ),
    Asked(RequestCode.GET_TOPIC_STATS_INFO, QUEUE, b"", (DESCRIBE_TOPIC,)),
    Asked(RequestCode.GET_TOPIC_CONFIG, QUEUE, b"", (DESCRIBE_TOPIC,)),
    Asked(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, QUEUE, b"", (DESCRIBE_TOPIC,)),
    Asked(RequestCode.GET_CONSUMER_CONNECTION_LIST, STATE, b"", (DESCRIBE_GROUP,)),
    Asked(RequestCode.GET_CONSUME_STATS, STATE, b"", (DESCRIBE_GROUP,)),
    Asked(
        RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, STATE, b"",
        ((Operation.DESCRIBE_CONFIGS, GROUP),),
    ),
    Asked(
        RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "CG"}, b"",
        ((Operation.DELETE, GROUP),),
    ),
    Asked(
        RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "gone"}, b"",
        ((Operation.DELETE, Resource(ResourceType.TOPIC, "gone")),),
    ),
    Asked(
        RequestCode.SET_MESSAGE_REQUEST_MODE, {}, b'{"consumerGroup":"CG","mode":"PULL"}',
        ((Operation.ALTER_CONFIGS, GROUP),),
    ),
    *(
        Asked(number, VALUE, b"", ((Operation.DESCRIBE_CONFIGS, CLUSTER),))
        for number in READS_CLUSTER
    ),
    *(
        Asked(number, VALUE, b"useServerSideResetOffset=true", (ALTER_CLUSTER,))
        for number in CHANGES_CLUSTER
    ),
    Asked(
        RequestCode.CLONE_GROUP_OFFSET, CLONED, b"",
        (DESCRIBE_GROUP, (Operation.READ, Resource(ResourceType.GROUP, "OG")), READ_TOPIC),
    ),
    Asked(RequestCode.CONSUME_MESSAGE_DIRECTLY, DIRECTLY, b"", (READ_GROUP,)),
    Asked(RequestCode.RESUME_CHECK_HALF_MESSAGE, DIRECTLY, b"", (ALTER_CLUSTER,)),
    Asked(RequestCode.GET_CONSUMER_RUNNING_INFO, STATE, b"", (DESCRIBE_GROUP,)),
    Asked(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, STATE, b"", (DESCRIBE_GROUP,)),
]  # fmt: skip


@pytest.fixture(scope="module")
def guarded() -> Iterator[BrokerThread]:
    """A broker on which ACLs decide, and its topics."""
    name = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    settings = {"authorizer.class.name": name, "rocketmq.recall.message.enable": "true"}
    with BrokerThread(SETTINGS | settings) as broker:
        broker.create_topics("t", "narrow", "gone", REPLY_TOPIC)
        yield broker


def set_rights(broker: BrokerThread, *rights: Right) -> None:
    """Allow anonymous clients these operations, and nothing else."""
    bindings = [
        AclBinding(resource, AclEntry(str(ANONYMOUS), "*", operation, Permission.ALLOW))
        for operation, resource in rights
    ]

    async def put(server: object) -> None:
        acls = broker.server.controller.settings.acls
        await acls.remove([AclFilter()])
        assert await acls.add(bindings) == [None] * len(bindings)

    broker.run(put)


@pytest.mark.parametrize("asked", REQUESTS, ids=lambda asked: f"{asked.code.name}")
def test_a_request_needs_each_of_its_permissions(guarded: BrokerThread, asked: Asked) -> None:
    def answered() -> ResponseCode:
        with RemotingClient(port_of(guarded)) as client:
            return code(client.call(asked.code, asked.fields, asked.body))

    for missing in asked.needs:
        others = [right for right in asked.needs if right != missing]
        set_rights(guarded, *others, (Operation.DESCRIBE, CLUSTER))
        assert answered() is asked.refused, missing
    set_rights(guarded, *asked.needs)
    assert answered() not in (ResponseCode.NO_PERMISSION, ResponseCode.TOPIC_NOT_EXIST)


def test_a_send_that_creates_its_topic_needs_create_and_write(guarded: BrokerThread) -> None:
    made = Resource(ResourceType.TOPIC, "made")
    create, write = (Operation.CREATE, made), (Operation.WRITE, made)
    with RemotingClient(port_of(guarded)) as client:
        for rights, expected in (
            ((write,), ResponseCode.NO_PERMISSION),
            ((create,), ResponseCode.NO_PERMISSION),
            ((create, write), ResponseCode.SUCCESS),
        ):
            set_rights(guarded, *rights)
            assert code(client.send("made")) is expected


def test_a_message_is_sent_back_by_a_client_that_may_read_topic_and_group(
    guarded: BrokerThread,
) -> None:
    write = (Operation.WRITE, TOPIC)
    other = (Operation.READ, Resource(ResourceType.GROUP, "OG"))
    with RemotingClient(port_of(guarded)) as client:
        set_rights(guarded, write)
        sent = fields(client.send("t", b"poison"))
        named = {"group": "CG", "offset": int(sent["msgId"][-16:], 16), "delayLevel": -1}
        for rights, expected in (
            ((READ_TOPIC, other), ResponseCode.NO_PERMISSION),
            ((READ_GROUP, write), ResponseCode.NO_PERMISSION),
            ((READ_TOPIC, READ_GROUP), ResponseCode.SUCCESS),
        ):
            set_rights(guarded, *rights)
            assert code(client.call(RequestCode.CONSUMER_SEND_MSG_BACK, named)) is expected


def test_the_right_to_a_group_is_the_right_to_its_retries_and_dead_letters(
    guarded: BrokerThread,
) -> None:
    other = (Operation.READ, Resource(ResourceType.GROUP, "OG"))
    with RemotingClient(port_of(guarded)) as client:
        set_rights(guarded, READ_GROUP, other)
        retry = {"j": 17, "l": 16, "i": "UNIQ_KEY\x01u\x02"}
        assert code(client.send("%RETRY%CG", b"dead", **retry)) is ResponseCode.SUCCESS
        assert code(client.pull("%DLQ%CG", consumerGroup="OG")) is ResponseCode.SUCCESS
        set_rights(guarded, other)
        assert code(client.send("%RETRY%CG", b"dead", **retry)) is ResponseCode.NO_PERMISSION
        pulled = client.pull("%DLQ%CG", consumerGroup="OG")
        assert code(pulled) is ResponseCode.NO_PERMISSION
        route = client.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "%DLQ%CG"})
        assert code(route) is ResponseCode.TOPIC_NOT_EXIST


def test_a_transaction_is_ended_by_a_client_that_may_write(guarded: BrokerThread) -> None:
    write = (Operation.WRITE, TOPIC)
    with RemotingClient(port_of(guarded)) as client:
        set_rights(guarded, write)
        sent = fields(client.send("t", b"half", f=4, i="PGROUP\x01PG\x02"))
        named = {
            "producerGroup": "PG", "commitOrRollback": 8,
            "commitLogOffset": int(sent["msgId"][-16:], 16),
        }  # fmt: skip
        for rights, expected in (
            ((READ_TOPIC,), ResponseCode.NO_PERMISSION),
            ((write,), ResponseCode.SUCCESS),
        ):
            set_rights(guarded, *rights)
            assert code(client.call(RequestCode.END_TRANSACTION, named)) is expected


def test_each_administrative_request_has_its_permission_here() -> None:
    free = {RequestCode.GET_BROKER_CLUSTER_INFO, RequestCode.DELETE_TOPIC_IN_NAMESRV}
    listed = {RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, RequestCode.VIEW_MESSAGE_BY_ID}
    assert ADMIN_HANDLERS.keys() - {asked.code for asked in REQUESTS} == free | listed


def test_clients_without_any_right_do_nothing(guarded: BrokerThread) -> None:
    set_rights(guarded)
    with RemotingClient(port_of(guarded)) as client:
        assert code(client.send("t")) is ResponseCode.NO_PERMISSION
        assert code(client.pull("t")) is ResponseCode.NO_PERMISSION


def test_a_message_is_viewed_with_the_right_to_read_its_topic(guarded: BrokerThread) -> None:
    view = RequestCode.VIEW_MESSAGE_BY_ID
    with RemotingClient(port_of(guarded)) as client:
        set_rights(guarded, (Operation.WRITE, TOPIC))
        sent = client.send("t")
        assert code(sent) is ResponseCode.SUCCESS, sent.remark
        physical = physical_offset_of(dict(sent.fields or {})["msgId"])
        asked = {"offset": physical}
        set_rights(guarded, (Operation.DESCRIBE, TOPIC))
        assert code(client.call(view, asked)) is ResponseCode.NO_PERMISSION
        set_rights(guarded, READ_TOPIC)
        assert code(client.call(view, asked)) is ResponseCode.SUCCESS


def test_each_of_several_alike_sends_needs_its_permission(guarded: BrokerThread) -> None:
    alike = "UNIQ_KEY\x01u\x02"
    with RemotingClient(port_of(guarded)) as client:
        set_rights(guarded, (Operation.WRITE, TOPIC))
        assert code(client.send("t", i=alike)) is ResponseCode.SUCCESS
        assert code(client.send("t", i=alike)) is ResponseCode.SUCCESS
        assert code(client.send("t", i=alike, e=9)) is ResponseCode.INVALID_PARAMETER
        set_rights(guarded)
        assert code(client.send("t", i=alike)) is ResponseCode.NO_PERMISSION
        set_rights(guarded, (Operation.WRITE, TOPIC))
        assert code(client.send("t", i=alike)) is ResponseCode.SUCCESS


def test_a_topic_list_has_what_the_client_may_describe(guarded: BrokerThread) -> None:
    with RemotingClient(port_of(guarded)) as client:
        set_rights(guarded, (Operation.DESCRIBE, NARROW))
        listed = client.call(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        assert bytes(listed.body) == b'{"topicList":["narrow"]}'
