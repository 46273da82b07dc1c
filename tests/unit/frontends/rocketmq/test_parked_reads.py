"""Parked pulls that read on a thread, again and again, until a message comes that they want."""

import pytest

from headrace.wire.rocketmq.codes import RequestCode, ResponseCode
from tests.support.rocketmq.client import messages_in
from tests.support.rocketmq.simulated import Remoting, remoting


@pytest.mark.parametrize("codec", ["producer", "zstd"])
@pytest.mark.parametrize("unwanted", [1, 40])
def test_a_parked_pull_reads_on_however_many_messages_it_does_not_want(
    codec: str, unwanted: int
) -> None:
    """Compressed messages are read on a thread. A woken pull has all its rounds again."""

    async def story(room: Remoting) -> None:
        producer, consumer = await room.client("producer"), await room.client("consumer")
        named = {"topic": "t", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6}
        await producer.call(RequestCode.UPDATE_AND_CREATE_TOPIC, named)
        settings = room.served.controller.settings
        await settings.alter_topic("t", {"compression.type": codec})
        parked = consumer.ask_pull("t", sysFlag=6, suspendTimeoutMillis=20_000, subscription="B")
        for _ in range(unwanted):
            sent = await producer.send("t", b"unwanted" * 100, i="TAGS\x01A\x02")
            assert sent.code == ResponseCode.SUCCESS
        assert not parked.done()
        await producer.send("t", b"wanted" * 100, i="TAGS\x01B\x02")
        answer = await parked
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        assert [message.body for message in messages_in(answer)] == [b"wanted" * 100]

    remoting(story)
