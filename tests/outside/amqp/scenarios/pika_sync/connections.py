"""Connections and channels."""

import time

import pika
from pika.exceptions import (
    AMQPConnectionError,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
)

from tests.outside.amqp.address import Address
from tests.outside.amqp.scenarios.pika_sync.kit import (
    channel,
    connected,
    declared,
    disconnected,
    parameters,
    refused,
    scenario,
    unused,
)
from tests.outside.matrix.scenario import raises

CAPABILITIES = (
    "publisher_confirms", "exchange_exchange_bindings", "basic.nack", "consumer_cancel_notify",
    "connection.blocked", "consumer_priorities", "authentication_failure_close",
    "per_consumer_qos", "direct_reply_to",
)  # fmt: skip


@scenario
def the_broker_says_what_it_is_and_what_it_can(address: Address) -> None:
    with connected(address) as connection:
        properties = connection._impl.server_properties
        assert {"product", "version", "platform", "information"} <= set(properties), properties
        capabilities = properties["capabilities"]
        assert {name for name in CAPABILITIES if capabilities.get(name) is True} == {*CAPABILITIES}


@scenario
def limits_are_agreed_on(address: Address) -> None:
    with connected(address) as connection:
        tuned = connection._impl.params
        assert (tuned.channel_max, tuned.frame_max, tuned.heartbeat) == (2047, 131_072, 60)
    with connected(address, channel_max=7, frame_max=16_384, heartbeat=30) as connection:
        tuned = connection._impl.params
        assert (tuned.channel_max, tuned.frame_max, tuned.heartbeat) == (7, 16_384, 30)


def _denied(address: Address, kind: type[Exception]) -> str:
    with raises(kind) as denied, connected(address):
        pass
    return repr(denied.error).replace("\\'", "'")


@scenario
def a_wrong_password_is_refused_in_words(address: Address) -> None:
    text = _denied(address._replace(password="wrong"), ProbableAuthenticationError)
    assert "403" in text
    assert "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN" in text


@scenario
def an_unknown_user_is_refused_in_words(address: Address) -> None:
    text = _denied(address._replace(user=unused("user")), ProbableAuthenticationError)
    assert "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN" in text


@scenario
def an_unknown_vhost_is_refused_in_words(address: Address) -> None:
    text = _denied(address._replace(vhost="none"), ProbableAccessDeniedError)
    assert "530" in text, text
    assert "NOT_ALLOWED - vhost none not found" in text, text


@scenario
def a_channel_error_leaves_the_connection_and_its_other_channels(address: Address) -> None:
    with connected(address) as connection:
        broken, other = connection.channel(), connection.channel()
        queue = declared(other)
        with refused(404):
            broken.queue_declare(unused(), passive=True)
        assert broken.is_closed
        assert other.queue_declare(queue, passive=True).method.queue == queue
        assert connection.channel(broken.channel_number).is_open, "its number is free again"


@scenario
def a_channel_is_closed_and_opened_again(address: Address) -> None:
    with connected(address) as connection:
        for _ in range(20):
            opened = connection.channel(1)
            declared(opened)
            opened.close()
            assert opened.is_closed


@scenario
def a_hundred_channels_are_open_at_once(address: Address) -> None:
    with connected(address) as connection:
        channels = [connection.channel() for _ in range(100)]
        queues = [declared(opened) for opened in channels]
        assert len({*queues}) == 100


@scenario
def more_channels_than_agreed_are_refused(address: Address) -> None:
    with connected(address, channel_max=2) as connection:
        connection.channel()
        connection.channel()
        # pika counts for itself: the number is forced on the broker.
        connection._impl.params.channel_max = 10
        with disconnected(530, "NOT_ALLOWED - number of channels opened (2) has reached"):
            connection.channel(3)


@scenario
def heartbeats_keep_a_quiet_connection(address: Address) -> None:
    with connected(address, heartbeat=1) as connection:
        heard = connection._impl._heartbeat_checker
        before = heard._heartbeat_frames_received
        deadline = time.monotonic() + 6
        while time.monotonic() < deadline:
            connection.process_data_events(0.2)
        assert connection.is_open
        assert heard._heartbeat_frames_received - before >= 3, "the broker's came"
        assert heard._heartbeat_frames_sent >= 3
        assert declared(connection.channel())


@scenario
def a_silent_client_is_cut_off(address: Address) -> None:
    connection = pika.BlockingConnection(parameters(address, heartbeat=1))
    connection.channel()
    # The broker hears nothing of a client that does not run.
    time.sleep(6)
    with raises(AMQPConnectionError):
        connection.channel()


@scenario
def another_vhost_has_other_queues(address: Address) -> None:
    with channel(address) as here, channel(address._replace(vhost="other")) as there:
        queue = declared(here)
        with refused(404, f"NOT_FOUND - no queue '{queue}' in vhost 'other'"):
            there.queue_declare(queue, passive=True)


@scenario
def a_vhost_of_others_is_refused(address: Address) -> None:
    other = address._replace(user="reader", password="secret", vhost="other")
    text = _denied(other, ProbableAccessDeniedError)
    assert "530" in text
    assert "NOT_ALLOWED - access to vhost 'other' refused for user 'reader'" in text, text
