"""Refusals of the handshake, of frames that are none, and of what belongs on another channel."""

import struct
from typing import Any

from pamqp.commands import Basic, Channel, Connection, Queue

from tests.outside.amqp import frames
from tests.outside.amqp.address import PROTOCOL_HEADER
from tests.outside.amqp.cases.case import Case, Step, ask, raw

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
FRAME_MAX = 131_072
HELLO = raw("protocol-header", PROTOCOL_HEADER, "connection.start")
CAPABLE = {"capabilities": dict(frames.CAPABILITIES)}
PUBLISH = frames.method(Basic.Publish(routing_key="q"))


def _start_ok(**fields: Any) -> Step:
    given = {
        "client_properties": CAPABLE, "mechanism": "PLAIN", "response": "\0guest\0guest",
        "locale": "en_US",
    } | fields  # fmt: skip
    return Step(
        "connection.start-ok", frames.method(Connection.StartOk(**given), 0), "connection.tune"
    )


def _tune_ok(channel_max: int = 2047, frame_max: int = FRAME_MAX, heartbeat: int = 0) -> Step:
    given = Connection.TuneOk(channel_max, frame_max, heartbeat)
    return Step("connection.tune-ok", frames.method(given, 0))


def _open(vhost: str) -> Step:
    return ask(Connection.Open(vhost), channel=0)


def _handshake(name: str, *steps: Step) -> Case:
    return Case(name, steps, opened=False)


def _handshakes() -> list[Case]:
    incapable = {"client_properties": {"product": "old"}}
    wrong = {"response": "\0guest\0wrong"}
    return [
        _handshake(
            "a header of AMQP 0-9",
            raw("protocol-header", b"AMQP\x01\x01\x00\x09", "connection.start"),
        ),
        _handshake("a header of AMQP 0-10", raw("protocol-header", b"AMQP\x01\x01\x00\x0a")),
        _handshake("a header of AMQP 9.9.9", raw("protocol-header", b"AMQP\x00\x09\x09\x09")),
        _handshake("a header of HTTP", raw("protocol-header", b"GET / HTTP/1.1\r\n\r\n")),
        _handshake("connection.start-ok: a wrong password", HELLO, _start_ok(**wrong)),
        _handshake(
            "connection.start-ok: an unknown user", HELLO, _start_ok(response="\0nobody\0x")
        ),
        _handshake(
            "connection.start-ok: a wrong password, of a client that knows no closing then",
            HELLO,
            _start_ok(**wrong, **incapable),
        ),
        _handshake("connection.start-ok: no such mechanism", HELLO, _start_ok(mechanism="MAGIC")),
        _handshake("connection.start-ok: PLAIN with nothing in it", HELLO, _start_ok(response="x")),
        _handshake(
            "connection.start-ok: AMQPLAIN with a wrong password",
            HELLO,
            _start_ok(mechanism="AMQPLAIN", response=_amqplain("guest", "wrong")),
        ),
        _handshake("connection.start-ok: PLAIN as guest", HELLO, _start_ok()),
        _handshake(
            "connection.start-ok: AMQPLAIN as guest",
            HELLO,
            _start_ok(mechanism="AMQPLAIN", response=_amqplain("guest", "guest")),
        ),
    ]


def _openings() -> list[Case]:
    return [
        _handshake("connection.open: in place of start-ok", HELLO, _open("/")),
        _handshake("queue.declare: in place of start-ok", HELLO, ask(Queue.Declare(queue="q"))),
        _handshake("connection.open: no such vhost", HELLO, _start_ok(), _tune_ok(), _open("none")),
        _handshake(
            "connection.open: no name of a vhost", HELLO, _start_ok(), _tune_ok(), _open("")
        ),
        _handshake(
            "connection.open: a vhost of others",
            HELLO,
            _start_ok(response="\0reader\0secret"),
            _tune_ok(),
            _open("other"),
        ),
        _handshake(
            "channel.open: before connection.open",
            HELLO,
            _start_ok(),
            _tune_ok(),
            ask(Channel.Open()),
        ),
    ]


def _limits() -> list[Case]:
    tuned = {
        "frame_max too small": {"frame_max": 100},
        "frame_max of 4096": {"frame_max": 4096},
        "frame_max too large": {"frame_max": FRAME_MAX + 1},
        "frame_max without a bound": {"frame_max": 0},
        "channel_max too large": {"channel_max": 2048},
        "channel_max without a bound": {"channel_max": 0},
    }
    found = [
        _handshake(
            f"connection.tune-ok: {name}", HELLO, _start_ok(), _tune_ok(**fields), _open("/")
        )
        for name, fields in tuned.items()
    ]
    above = [_tune_ok(channel_max=10), _open("/"), ask(Channel.Open(), channel=11)]
    many = [
        _tune_ok(channel_max=1),
        _open("/"),
        ask(Channel.Open()),
        ask(Channel.Open(), channel=2),
    ]
    return [
        *found,
        _handshake("channel.open: above channel_max", HELLO, _start_ok(), *above),
        _handshake("channel.open: one more than channel_max", HELLO, _start_ok(), *many),
    ]


def _amqplain(user: str, password: str) -> str:
    """A field table's inside; Latin-1 as bytes are."""
    fields = (("LOGIN", user), ("PASSWORD", password))
    return "".join(
        f"{chr(len(name))}{name}S{struct.pack('>I', len(value)).decode()}{value}"
        for name, value in fields
    )


def _content_header(body_bytes: int, class_id: int = 60) -> bytes:
    return frames.raw(HEADER, 1, struct.pack(">HHQH", class_id, 0, body_bytes, 0))


def _frames() -> list[Case]:
    queue_class, no_method = 50, 99
    declare = frames.method(Queue.Declare(queue="q"))
    bad_table = struct.pack(">HHHB", queue_class, 10, 0, 1) + b"q\x00" + b"\x00\x00\x00\x05abcde"
    unknown_kind = (
        struct.pack(">HHHB", queue_class, 10, 0, 1) + b"q\x00" + b"\x00\x00\x00\x04\x01aZ\x00"
    )
    given = {
        "a frame without its end": declare[:-1] + b"\x00",
        "a frame of no kind": frames.raw(7, 1, b"abc"),
        "a frame above frame_max": struct.pack(">BHI", METHOD, 1, FRAME_MAX + 1),
        "a header that nothing was before": _content_header(1),
        "a body that nothing was before": frames.raw(BODY, 1, b"m"),
        "a method in place of a header": PUBLISH + declare,
        "a method in place of a body": PUBLISH + _content_header(1) + declare,
        "a body in place of a header": PUBLISH + frames.raw(BODY, 1, b"m"),
        "a header in place of a body": PUBLISH + _content_header(1) + _content_header(1),
        "a header of another class": PUBLISH + _content_header(1, queue_class),
        "a body longer than its header says": PUBLISH
        + _content_header(1)
        + frames.raw(BODY, 1, b"mm"),
        "a method that is none": frames.raw(METHOD, 1, struct.pack(">HH", queue_class, no_method)),
        "a class that is none": frames.raw(METHOD, 1, struct.pack(">HH", 99, 10)),
        "a method cut short": frames.raw(METHOD, 1, declare[7:-4]),
        "a method of two bytes": frames.raw(METHOD, 1, b"\x00\x32"),
        "a method without a byte": frames.raw(METHOD, 1, b""),
        "a table cut short": frames.raw(METHOD, 1, bad_table),
        "a table with a value of no kind": frames.raw(METHOD, 1, unknown_kind),
        "a header cut short": PUBLISH + frames.raw(HEADER, 1, b"\x00\x3c\x00\x00"),
        "a header whose properties are cut short": PUBLISH
        + frames.raw(HEADER, 1, struct.pack(">HHQH", 60, 0, 0, 0x8000)),
        "a heartbeat on a channel": frames.raw(HEARTBEAT, 1, b""),
        "a heartbeat with something in it": frames.raw(HEARTBEAT, 0, b"x"),
    }
    return [Case(name, [raw(name, data)]) for name, data in given.items()]


def _places() -> list[Case]:
    declare = Queue.Declare(queue="q")
    return [
        Case("queue.declare: on a channel that is not open", [ask(declare, channel=2)]),
        Case("queue.declare: on channel 0", [ask(declare, channel=0)]),
        Case("channel.open: twice", [ask(Channel.Open())]),
        Case("channel.open: on channel 0", [ask(Channel.Open(), channel=0)]),
        Case(
            "channel.close: on a channel that is not open",
            [ask(Channel.Close(200, "", 0, 0), channel=2)],
        ),
        Case("connection.open: a second time", [ask(Connection.Open("/"), channel=0)]),
        Case("connection.open: on a channel", [ask(Connection.Open("/"))]),
        Case("connection.close: on a channel", [ask(Connection.Close(200, "", 0, 0))]),
        Case("connection.start-ok: a second time", [_start_ok()]),
        Case(
            "connection.update-secret: of a user with a password",
            [ask(Connection.UpdateSecret("new", "because"), channel=0)],
        ),
        Case("queue.declare-ok: from a client", [ask(Queue.DeclareOk("q", 0, 0))]),
        Case("basic.deliver: from a client", [ask(Basic.Deliver("c", 1, False, "", "q"))]),
        Case("basic.cancel-ok: from a client", [ask(Basic.CancelOk("c"))]),
        Case("connection.blocked: from a client", [ask(Connection.Blocked("full"), channel=0)]),
    ]


CASES = [*_handshakes(), *_openings(), *_limits(), *_frames(), *_places()]
