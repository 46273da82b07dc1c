"""Plain sends that come together: answered one by one, in order, beside all other sends."""

import zlib
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from headrace.frontends.rocketmq import send_runs
from headrace.net.write_pass import WritePass, Writes
from headrace.server.assembly import Server
from headrace.testing import BrokerThread
from headrace.wire.rocketmq.codes import RequestCode, ResponseCode
from headrace.wire.rocketmq.commands import RemotingCommand, encode_command
from headrace.wire.rocketmq.message_ids import physical_offset_of, place_of
from tests.support.rocketmq.client import RemotingClient, messages_in
from tests.support.rocketmq.kit import SETTINGS, code, fields, made, port_of, served

UNIQUE = "UNIQ_KEY\x01{}\x02WAIT\x01true\x02"
FIRST = 1000


def frame(topic: str, number: int, body: bytes = b"body", **changed: object) -> bytes:
    """Return a send as Java's client writes it, with an opaque of its own."""
    named: dict[str, object] = {
        "a": "PG", "b": topic, "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1795860860391, "h": 0,
        "i": UNIQUE.format(number), "j": 0, "k": "false", "m": "false",
    }  # fmt: skip
    texts = {name: str(value) for name, value in (named | changed).items()}
    send = RemotingCommand(RequestCode.SEND_MESSAGE_V2, FIRST + number, 0, texts, body)
    return b"".join(encode_command(send))


def sent(client: RemotingClient, frames: Sequence[bytes]) -> list[RemotingCommand]:
    """Send frames by one write; return the answers in the frames' order."""
    client.send_bytes(b"".join(frames))
    return [client.answer(FIRST + number) for number in range(len(frames))]


def bodies(client: RemotingClient, topic: str, queue: int = 0) -> list[bytes]:
    """Return the bodies in a queue."""
    found: list[bytes] = []
    while True:
        answer = client.pull(topic, len(found), queueId=queue)
        if code(answer) is not ResponseCode.SUCCESS:
            return found
        found += [message.body for message in messages_in(answer)]


def test_sends_that_come_together_are_answered_as_the_first_is(client: RemotingClient) -> None:
    topic = made(client, "together", queues=2)
    alone = client.send(topic, i=UNIQUE.format("x"))
    frames = [frame(topic, n, b"%d" % n, e=n % 2) for n in range(50)]
    answers = sent(client, frames)
    for number, answer in enumerate(answers):
        offset = number // 2 + (number % 2 == 0)
        expected = fields(alone) | {
            "queueId": str(number % 2),
            "transactionId": str(number),
            "queueOffset": str(offset),
            "msgId": fields(answer)["msgId"],
        }
        assert (answer.code, answer.remark, answer.flag) == (alone.code, None, alone.flag)
        assert list(fields(answer).items()) == list(expected.items())
        place = place_of(physical_offset_of(fields(answer)["msgId"]))
        assert place.offset == offset
        (message,) = messages_in(client.pull(topic, offset, queueId=number % 2, maxMsgNums=1))
        assert message.physical_offset == physical_offset_of(fields(answer)["msgId"])
        assert message.properties.startswith(UNIQUE.format(number).encode())
        assert (message.body, message.born_at_ms) == (b"%d" % number, 1795860860391)


def test_the_form_of_a_connections_newest_topic_is_known(
    client: RemotingClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[bytes] = []
    learn = send_runs.SendRuns.learn

    def noted(runs: send_runs.SendRuns, header: bytes, command: RemotingCommand) -> None:
        decoded.append(header)
        learn(runs, header, command)

    monkeypatch.setattr(send_runs, "FORMS_MAX", 3)
    monkeypatch.setattr(send_runs.SendRuns, "learn", noted)
    topics = [made(client, f"form_{number}") for number in range(5)]
    for expected, topic in ((1, 0), (2, 1), (3, 2), (3, 0), (4, 3), (4, 0), (5, 4), (5, 3), (6, 1)):
        (answer,) = sent(client, [frame(topics[topic], 0)])
        assert code(answer) is ResponseCode.SUCCESS
        assert len(decoded) == expected, topics[topic]


def test_sends_of_all_kinds_to_a_queue_keep_their_order(client: RemotingClient) -> None:
    topic = made(client, "mixed")
    large = zlib.compress(bytes(range(256)) * 4000, 0)
    frames = [
        frame(topic, 0, b"0"),
        frame(topic, 1, b"1"),
        frame(topic, 2, b"2", h=7),
        frame(topic, 3, b"3"),
        frame(topic, 4, large, f=1),
        frame(topic, 5, b"5"),
        frame(topic, 6, b"6", i="TAGS\x01A\x02"),
        frame(topic, 7, b"7"),
    ]
    answers = sent(client, frames)
    assert [fields(answer)["queueOffset"] for answer in answers] == [str(n) for n in range(8)]
    found = bodies(client, topic)
    assert [body for body in found if len(body) == 1] == [b"0", b"1", b"2", b"3", b"5", b"6", b"7"]
    assert len(found[4]) == 256 * 4000


def test_refused_sends_do_not_hold_up_those_beside_them(client: RemotingClient) -> None:
    topic = made(client, "refused")
    answers = sent(
        client,
        [
            frame(topic, 0),
            frame(topic, 1),
            frame(topic, 2, b""),
            frame(topic, 3, e=9),
            frame(topic, 4, f=1),
            frame(topic, 5),
        ],
    )
    assert [code(answer) for answer in answers] == [
        ResponseCode.SUCCESS,
        ResponseCode.SUCCESS,
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.INVALID_PARAMETER,
        ResponseCode.MESSAGE_ILLEGAL,
        ResponseCode.SUCCESS,
    ]
    assert bodies(client, topic) == [b"body"] * 3


def test_a_delayed_message_among_plain_sends_waits_for_its_time(client: RemotingClient) -> None:
    topic = made(client, "delayed-among")
    delayed = UNIQUE.format(1) + "DELAY\x0118\x02"
    answers = sent(client, [frame(topic, 0), frame(topic, 1, i=delayed), frame(topic, 2)])
    assert [code(answer) for answer in answers] == [ResponseCode.SUCCESS] * 3
    assert bodies(client, topic) == [b"body"] * 2


def test_a_topic_deleted_between_sends_is_created_again(client: RemotingClient) -> None:
    topic = made(client, "again")
    sent(client, [frame(topic, n) for n in range(3)])
    client.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})
    answers = sent(client, [frame(topic, n) for n in range(3)])
    assert [fields(answer).get("queueOffset") for answer in answers] == ["0", "1", "2"]


def test_sends_of_a_closed_connection_are_stored(broker: BrokerThread) -> None:
    port = broker.call(lambda server: server.listeners[1].port)
    with RemotingClient(port) as client:
        topic = made(client, "closed")
        client.send(topic, b"first", i=UNIQUE.format("x"))
        client.send_bytes(b"".join(frame(topic, n) for n in range(20)))
        client.answer(FIRST + 19)
    with RemotingClient(port) as client:
        assert bodies(client, topic) == [b"first"] + [b"body"] * 20

    def waiting(server: Server) -> int:
        return len(served(server).sending._open)

    assert broker.call(waiting) == 0


class FailingWrites:
    """Writes of passes that fail after they were done."""

    def __init__(self, writes: Writes) -> None:
        self.begin = writes.begin
        self._writes = writes

    def end(self, later: Callable[[bool], None]) -> bool:
        """Perform the writes, and report that some failed."""
        self._writes.end(later)
        return True


@pytest.mark.parametrize("plain", [True, False])
def test_sends_are_not_acknowledged_if_their_write_fails(plain: bool) -> None:
    def fail_writes(server: Server) -> None:
        frontend = cast("Any", server.frontends)._others[0]
        frontend.writes = WritePass(FailingWrites(frontend.writes._writes))

    with (
        BrokerThread(SETTINGS | {"log.flush.on.ack": "false"}) as broker,
        RemotingClient(port_of(broker)) as client,
    ):
        topic = made(client, "failed")
        client.send(topic, i=UNIQUE.format("x"))
        broker.call(fail_writes)
        with pytest.raises(ConnectionError):
            client.send(topic, i=UNIQUE.format("y"), h=0 if plain else 1)
