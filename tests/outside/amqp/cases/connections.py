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
        _handshake(
            "connection.start-ok: ANONYMOUS", HELLO, _start_ok(mechanism="ANONYMOUS", response="")
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


def _more_frames() -> list[Case]:
    """What hostile bytes look like beside the plainest cases: other kinds, lengths, places."""
    declare = frames.method(Queue.Declare(queue="q"))
    head = struct.pack(">HHHB", 50, 10, 0, 1) + b"q\x00"
    nested = b"\x01tF\x00\x00\x00\x09\x01uI\x00"
    array = b"\x01aA\x00\x00\x00\x08I\x00\x00"
    given = {
        "a frame of kind 0": frames.raw(0, 1, b"abc"),
        "a frame of kind 255": frames.raw(255, 1, b"abc"),
        "a frame of no kind without its end": frames.raw(7, 1, b"abc", b"\x00"),
        "a frame of no kind on channel 0": frames.raw(7, 0, b"abc"),
        "a header on channel 0": frames.raw(HEADER, 0, b"abc"),
        "a body on channel 0": frames.raw(BODY, 0, b"abc"),
        "a method of two bytes on channel 0": frames.raw(METHOD, 0, b"\x00\x0a"),
        "a method that is none on channel 0": frames.raw(METHOD, 0, b"\x00\x0a\x00\x63"),
        "a frame far above frame_max": struct.pack(">BHI", BODY, 1, 0xFFFFFFFF),
        "a frame on a channel that is not open": frames.raw(BODY, 7, b"abc"),
        "a method with bytes behind it": frames.raw(METHOD, 1, declare[7:-1] + b"abc"),
        "a name longer than its frame": frames.raw(
            METHOD, 1, struct.pack(">HHHB", 50, 10, 0, 200) + b"q"
        ),
        "a table in a table cut short": frames.raw(
            METHOD, 1, head + struct.pack(">I", len(nested)) + nested
        ),
        "an array cut short": frames.raw(METHOD, 1, head + struct.pack(">I", len(array)) + array),
        "a header with a weight": PUBLISH
        + frames.raw(HEADER, 1, struct.pack(">HHQH", 60, 1, 0, 0)),
        "a body of more than may ever be": PUBLISH + _content_header(1 << 62),
        "a body of 512 MiB and a byte": PUBLISH + _content_header((512 << 20) + 1),
        "a header whose flags go on for ever": PUBLISH
        + frames.raw(HEADER, 1, struct.pack(">HHQH", 60, 0, 0, 1)),
        "a header whose table is cut short": PUBLISH
        + frames.raw(HEADER, 1, struct.pack(">HHQHI", 60, 0, 0, 0x2000, 100)),
        "a body without a byte, of a message with one": PUBLISH
        + _content_header(1)
        + frames.raw(BODY, 1, b"") * 100
        + frames.raw(BODY, 1, b"m"),
        "a heartbeat amid a content": PUBLISH
        + _content_header(1)
        + frames.raw(HEARTBEAT, 0, b"")
        + frames.raw(BODY, 1, b"m"),
        "a heartbeat on a channel amid a content": PUBLISH
        + _content_header(1)
        + frames.raw(HEARTBEAT, 1, b""),
        "channel.close amid a content": PUBLISH
        + _content_header(1)
        + frames.method(Channel.Close(200, "", 0, 0)),
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
        Case("channel.close-ok: nobody has closed", [ask(Channel.CloseOk())]),
        Case("connection.close-ok: nobody has closed", [ask(Connection.CloseOk(), channel=0)]),
        Case("connection.tune-ok: a second time", [_tune_ok()]),
        Case(
            "basic.publish: on a channel that is not open",
            [raw("basic.publish", frames.method(Basic.Publish(routing_key="q"), 2))],
        ),
        Case("connection.blocked: from a client", [ask(Connection.Blocked("full"), channel=0)]),
    ]


CASES = [*_handshakes(), *_openings(), *_limits(), *_frames(), *_more_frames(), *_places()]
