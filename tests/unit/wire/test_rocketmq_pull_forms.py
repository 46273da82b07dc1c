"""Headers of pulls are read without JSON once their form is known; answers are as encoded."""

import json

import pytest

from headrace.wire.rocketmq.commands import CommandFlag, RemotingCommand, encode_command
from headrace.wire.rocketmq.hot.pull_forms import PulledFields, found_head, pull_form

JAVA = (
    b'{"code":11,"extFields":{"queueId":"3","maxMsgBytes":"262144","maxMsgNums":"32",'
    b'"sysFlag":"2","suspendTimeoutMillis":"15000","commitOffset":"-1","bname":"broker-a",'
    b'"topic":"T","queueOffset":"70","expressionType":"TAG","subVersion":"1795860955220",'
    b'"consumerGroup":"CG"},"flag":0,"language":"JAVA","opaque":63,'
    b'"serializeTypeCurrentRPC":"JSON","version":513}'
)
CPP = (
    b'{"code":11,"extFields":{"commitOffset":"0","consumerGroup":"CG","maxMsgNums":32,"queueId":0,'
    b'"queueOffset":"5","subVersion":"1","subscription":"*","suspendTimeoutMillis":"15000",'
    b'"sysFlag":6,"topic":"T"},"flag":0,"language":"CPP","opaque":19,"remark":"","version":63}'
)


@pytest.mark.parametrize(
    ("header", "fields"),
    [(JAVA, PulledFields(3, 70, -1, 63)), (CPP, PulledFields(0, 5, 0, 19))],
    ids=["Java", "C++"],
)
def test_a_header_of_a_known_form_is_read(header: bytes, fields: PulledFields) -> None:
    form = pull_form(header)
    assert form is not None
    assert form.read(header) == fields
    other = header.replace(b'"queueOffset":"', b'"queueOffset":"9')
    assert json.loads(other)["extFields"]["queueOffset"].startswith("9")
    found = form.read(other)
    assert found is not None
    assert found.queue_offset == int(f"9{fields.queue_offset}")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'"topic":"T"', b'"topic":"U"'),
        (b'"queueId":"3"', b'"queueId":"-3"'),
        (b'"queueId":"3"', b'"queueId":"4294967296"'),
        (b'"opaque":63', b'"opaque":4294967296'),
        (b'"queueOffset":"70"', b'"queueOffset":"7000000000000000000"'),
        (b'"queueOffset":"70"', b'"queueOffset":70'),
        (b'"queueOffset":"70"', b'"queueOffset":""'),
        (b'"flag":0', b'"flag":2'),
    ],
)
def test_a_header_that_differs_elsewhere_or_has_no_such_number_is_left(
    before: bytes, after: bytes
) -> None:
    form = pull_form(JAVA)
    assert form is not None
    assert before in JAVA
    assert form.read(JAVA.replace(before, after)) is None


@pytest.mark.parametrize(
    "header",
    [
        JAVA.replace(b'"code":11', b'"code":361'),
        JAVA.replace(b'"topic":"T"', b'"topic":"\\"queueId\\":\\"1\\""'),
        JAVA.replace(b'"queueId":"3",', b""),
        JAVA.replace(b'"queueId":"3",', b'"queueId":"3","queueId":"4",'),
        b'{"code":11,',
    ],
)
def test_other_headers_have_no_form(header: bytes) -> None:
    assert pull_form(header) is None


def test_an_answer_with_messages_has_the_bytes_of_an_encoded_command() -> None:
    fields = {
        "suggestWhichBrokerId": "0",
        "groupSysFlag": "0",
        "nextBeginOffset": "39",
        "maxOffset": "1099511627776",
        "minOffset": "7",
        "topicSysFlag": "0",
    }
    command = RemotingCommand(0, 63, CommandFlag.RESPONSE, fields, b"messages", "FOUND")
    expected = b"".join(encode_command(command))
    assert found_head(39, 1 << 40, 7, 63, len(b"messages")) + b"messages" == expected
