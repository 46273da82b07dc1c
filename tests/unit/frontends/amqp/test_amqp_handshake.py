"""From the first byte to an open connection, and every way not to come there."""

import pytest

from headrace.frontends.amqp.connection.connection_state import (
    HANDSHAKE_S_MAX,
    SILENT_CLOSE_S,
    State,
)
from headrace.frontends.amqp.connection.negotiation import CAPABILITIES, Settings, settings_of
from headrace.security.identity import Principal
from headrace.vhosts.users.logins import LoginRefused
from headrace.wire.amqp.control_methods import (
    ChannelOpen,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
)
from headrace.wire.amqp.field_table import encode_table
from headrace.wire.amqp.frames import PROTOCOL_HEADER
from headrace.wire.amqp.methods import encode_method
from headrace.wire.amqp.settings import AmqpKeys
from tests.support.amqp.kit import Client


def test_a_connection_opens_by_plain() -> None:
    client = Client()
    (start,) = client.begin()
    assert isinstance(start, ConnectionStart)
    assert (start.version_major, start.version_minor) == (0, 9)
    assert start.mechanisms == b"PLAIN AMQPLAIN"
    assert start.server_properties["product"] == "RabbitMQ"
    assert start.server_properties["version"] == "4.0.5"
    assert start.server_properties["capabilities"] == dict.fromkeys(CAPABILITIES, True)
    assert len(CAPABILITIES) == 9
    said = client.say(ConnectionStartOk({}, "PLAIN", b"\0guest\0secret", "en_US"))
    assert said == [ConnectionTune(2047, 131_072, 60)]
    assert client.tune() == []
    assert client.say(ConnectionOpen("/")) == [ConnectionOpenOk()]
    assert client.connection.principal == Principal("User", "guest")


def test_the_advertised_version_is_the_settings() -> None:
    client = Client(version="3.13.7")
    (start,) = client.begin()
    assert isinstance(start, ConnectionStart)
    assert start.server_properties["version"] == "3.13.7"


def test_a_connection_that_comes_byte_by_byte_opens() -> None:
    client = Client()
    wire = PROTOCOL_HEADER + b"".join(
        encode_method(0, method)
        for method in (
            ConnectionStartOk({}, "PLAIN", b"\0guest\0secret", "en_US"),
            ConnectionTuneOk(2047, 131_072, 0),
            ConnectionOpen("/"),
        )
    )
    for at in range(len(wire)):
        client.raw(wire[at : at + 1])
    assert client.heard()[-1:] == [ConnectionOpenOk()]
    assert client.connection.state is State.RUNNING


def test_amqplain_is_a_table_without_its_length() -> None:
    client = Client()
    client.begin()
    response = encode_table({"LOGIN": "guest", "PASSWORD": "secret"})
    (tune,) = client.say(ConnectionStartOk({}, "AMQPLAIN", response, "en_US"))
    assert isinstance(tune, ConnectionTune)


def test_external_is_offered_to_whom_a_certificate_names_and_is_he() -> None:
    client = Client(certificate_name="alice")
    (start,) = client.begin()
    assert isinstance(start, ConnectionStart)
    assert start.mechanisms == b"PLAIN AMQPLAIN EXTERNAL"
    client.say(ConnectionStartOk({}, "EXTERNAL", b"", "en_US"))
    assert client.connection.principal == Principal("User", "alice")


def test_who_says_nothing_of_himself_is_guest_where_guest_may_come_in() -> None:
    client = Client(guest=True)
    (start,) = client.begin()
    assert isinstance(start, ConnectionStart)
    assert start.mechanisms == b"PLAIN AMQPLAIN ANONYMOUS"
    client.say(ConnectionStartOk({}, "ANONYMOUS", b"anything", "en_US"))
    (credentials,) = client.broker.credentials
    assert (credentials.mechanism, credentials.user) == ("ANONYMOUS", "guest")
    assert credentials.password is not None
    assert credentials.password.reveal() == "guest", "checked as if guest had said it"


def test_anonymous_is_no_mechanism_where_guest_may_not_come_in() -> None:
    client = Client()
    client.begin()
    assert client.say(ConnectionStartOk({}, "ANONYMOUS", b"", "en_US")) == []
    client.wait(SILENT_CLOSE_S)
    assert client.over()
    assert client.broker.credentials == []


def test_who_fails_waits_for_the_answer_as_long_as_is_said_and_is_heard_no_more() -> None:
    client = Client()
    client.broker.answers_late = True
    assert client.log_in("wrong") == []
    assert client.broker.late is not None
    client.broker.late(LoginRefused("wrong password", 0.5))
    assert client.connection.refused_s == 0.5
    client.wait(0.4)
    assert client.heard() == []
    client.wait(0.2)
    (close,) = client.heard()
    assert isinstance(close, ConnectionClose)
    client.wait(SILENT_CLOSE_S)
    assert client.over()


def test_who_asks_on_while_he_waits_is_told_nothing() -> None:
    client = Client()
    client.broker.answers_late = True
    client.log_in("wrong")
    assert client.broker.late is not None
    client.broker.late(LoginRefused("wrong password", 0.5))
    assert client.say(ConnectionStartOk({}, "PLAIN", b"\0guest\0secret", "en_US")) == []
    client.wait(SILENT_CLOSE_S + 1)
    assert client.heard() == []
    assert client.over()


def test_a_connection_says_when_something_became_of_it_in_between() -> None:
    changed: list[str] = []
    client = Client(changed=lambda: changed.append("changed"))
    client.open()
    del changed[:]
    client.broker.close_client("enough")
    assert changed
    (close,) = client.heard()
    assert isinstance(close, ConnectionClose)
    assert close.reply_text == "CONNECTION_FORCED - enough"


@pytest.mark.parametrize(
    "header",
    [
        b"AMQP\x00\x00\x08\x00",
        b"AMQP\x03\x01\x00\x00",
        b"GET / HT",
        b"\x16\x03\x01\x00\x00\x00\x00\x00",
    ],
)
def test_another_header_is_answered_with_ours_and_the_end(header: bytes) -> None:
    client = Client()
    client.raw(header)
    assert client.sent == PROTOCOL_HEADER
    assert client.over()
    assert client.connection.reason


def test_amqp_0_9_is_near_enough() -> None:
    client = Client()
    client.raw(b"AMQP\x01\x01\x00\x09")
    assert isinstance(client.heard()[0], ConnectionStart)


def test_a_wrong_password_is_told_as_rabbitmq_does_and_the_connection_ends_after_a_while() -> None:
    client = Client()
    text = (
        "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN."
        " For details see the broker logfile."
    )
    assert client.log_in("wrong") == [ConnectionClose(403, text, 0, 0)]
    client.wait(SILENT_CLOSE_S - 0.1)
    assert not client.over()
    assert client.say(ConnectionCloseOk()) == []
    client.wait(0.1)
    assert client.over()
    assert client.connection.reason == "PLAIN login refused: wrong password"


def test_who_does_not_understand_a_refusal_hears_nothing() -> None:
    client = Client()
    assert client.log_in("wrong", {}) == []
    assert not client.over()
    client.wait(SILENT_CLOSE_S)
    assert client.over()


@pytest.mark.parametrize(
    ("mechanism", "response"),
    [
        ("EXTERNAL", b""),
        ("SCRAM-SHA-256", b""),
        ("PLAIN", b"guest"),
        ("PLAIN", b"\0\xff\0secret"),
        ("AMQPLAIN", b"\xff"),
        ("AMQPLAIN", encode_table({"LOGIN": "guest"})),
    ],
)
def test_what_is_no_login_ends_the_connection_without_a_word(
    mechanism: str, response: bytes
) -> None:
    client = Client()
    client.begin()
    assert client.say(ConnectionStartOk({}, mechanism, response, "en_US")) == []
    assert client.connection.state is State.REFUSED
    client.wait(SILENT_CLOSE_S)
    assert client.over()
    assert client.broker.credentials == []


def test_a_login_that_takes_its_time_goes_on_when_it_is_known() -> None:
    client = Client()
    client.broker.answers_late = True
    assert client.log_in() == []
    assert client.broker.late is not None
    client.broker.late(Principal("User", "guest"))
    (tune,) = client.heard()
    assert isinstance(tune, ConnectionTune)


def test_a_login_known_after_the_end_changes_nothing() -> None:
    client = Client()
    client.broker.answers_late = True
    client.log_in()
    client.wait(HANDSHAKE_S_MAX)
    assert client.over()
    assert client.broker.late is not None
    client.broker.late(Principal("User", "guest"))
    assert client.heard() == []


def test_a_refusal_known_after_the_end_sends_nothing() -> None:
    client = Client()
    client.broker.answers_late = True
    client.log_in()
    client.wait(HANDSHAKE_S_MAX)
    reason = client.connection.reason
    assert client.broker.late is not None
    client.broker.late(LoginRefused("wrong password"))
    assert client.connection.reason == reason == "not open after 10 s, in state securing"


@pytest.mark.parametrize(
    ("tuned", "text"),
    [
        (
            {"frame_max": 4095},
            "negotiated frame_max = 4095 is lower than the minimum allowed value (4096)",
        ),
        (
            {"frame_max": 131_073},
            "negotiated frame_max = 131073 is higher than the maximum allowed value (131072)",
        ),
        (
            {"frame_max": 0},
            "negotiated frame_max = 0 is higher than the maximum allowed value (131072)",
        ),
        (
            {"channel_max": 2048},
            "negotiated channel_max = 2048 is higher than the maximum allowed value (2047)",
        ),
        (
            {"channel_max": 0},
            "negotiated channel_max = 0 (no limit) is higher than the maximum allowed value (2047)",
        ),
    ],
)
def test_what_cannot_be_agreed_on_closes_with_the_value_and_the_bound(
    tuned: dict[str, int], text: str
) -> None:
    client = Client()
    client.log_in()
    assert client.tune(**tuned) == [ConnectionClose(530, f"NOT_ALLOWED - {text}", 10, 31)]


@pytest.mark.parametrize(
    ("version", "least"),
    [
        ("3.13.7", 4096),
        ("4.0.5", 4096),
        ("4.1.0", 8192),
        ("4.3.6", 8192),
        ("10.0", 8192),
        ("", 4096),
    ],
)
def test_least_frame_max_is_that_of_the_version_clients_are_told(version: str, least: int) -> None:
    client = Client(version=version)
    client.log_in()
    assert client.tune(frame_max=least) == []
    client = Client(version=version)
    client.log_in()
    (closed,) = client.tune(frame_max=least - 1)
    assert isinstance(closed, ConnectionClose)
    assert closed.reply_text.endswith(f"is lower than the minimum allowed value ({least})")


def test_an_unknown_virtual_host_closes_the_connection() -> None:
    client = Client()
    client.log_in()
    client.tune()
    said = client.say(ConnectionOpen("/no"))
    assert said == [ConnectionClose(530, "NOT_ALLOWED - vhost /no not found", 10, 40)]
    client.say(ConnectionCloseOk())
    assert client.over()


def test_a_channel_before_the_connection_is_open_is_an_unexpected_frame() -> None:
    client = Client()
    client.log_in()
    client.tune()
    text = "UNEXPECTED_FRAME - type 1, all octets = <<0,20,0,10,0>>"
    assert client.say(ChannelOpen(), channel=1) == [ConnectionClose(505, text, 0, 0)]


def test_who_does_not_come_to_an_end_of_the_handshake_is_ended() -> None:
    client = Client()
    client.begin()
    client.wait(HANDSHAKE_S_MAX - 0.1)
    assert not client.over()
    client.wait(0.1)
    assert client.over()


def test_a_large_frame_before_the_login_ends_the_connection_without_a_word() -> None:
    client = Client()
    client.begin()
    client.raw(b"\x01\x00\x00\x7f\xff\xff\xff")
    assert client.heard() == []
    client.wait(SILENT_CLOSE_S)
    assert client.over()


def test_what_is_proposed_is_what_the_broker_is_configured_to() -> None:
    config = AmqpKeys(
        amqp_advertised_version="3.13.7",
        amqp_channel_max=100_000,
        amqp_frame_max_bytes=8192,
        amqp_heartbeat_seconds=0,
        amqp_guest=True,
    )
    client = Client(**settings_of(config, "cluster")._asdict())
    (start,) = client.begin()
    assert isinstance(start, ConnectionStart)
    assert start.server_properties["version"] == "3.13.7"
    assert start.server_properties["cluster_name"] == "cluster"
    assert start.mechanisms.endswith(b" ANONYMOUS")
    said = client.say(ConnectionStartOk({}, "PLAIN", b"\0guest\0secret", "en_US"))
    assert said == [ConnectionTune(65535, 8192, 0)]
    assert settings_of(AmqpKeys(), "headrace") == Settings()
