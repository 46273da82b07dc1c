"""Stock clients that bring a token of their own making produce and consume by OAUTHBEARER.

librdkafka by its oauth_cb, kafka-python and aiokafka by their token providers, our own by a file.
"""

import asyncio
import gc
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.testing.broker import BrokerThread
from tests.support.processes.cli_kit import sayer
from tests.support.security.sasl_kit import guarded
from tests.support.security.token_kit import claims, jwks, listener_settings, signer

pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"  # sockets that clients leave open that fail
)
VALUES = [b"1", b"2", b"3"]
Renew = Callable[[], str]
Client = Callable[[str, Renew, str], list[bytes]]
"""Writes `VALUES` to a topic and reads them: bootstrap, what gives a token, topic."""


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """Have what clients leave open that fail collected here, where it is expected."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    keys = tmp_path_factory.mktemp("keys") / "keys.json"
    keys.write_bytes(jwks(signer("RS256"), signer("ES256")))
    with guarded(auto_create_topics_enable="true", **listener_settings(keys)) as running:
        yield running


def good(seconds: float = 3600, algorithm: str = "RS256", **changed: Any) -> str:
    now = time.time()
    return signer(algorithm).token(claims(now, exp=now + seconds, **changed))


def librdkafka(bootstrap: str, renew: Renew, topic: str) -> list[bytes]:
    from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

    errors: list[KafkaError] = []
    common = {
        "bootstrap.servers": bootstrap, "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER", "error_cb": errors.append, "log_level": 0,
        "oauth_cb": lambda _: (renew(), time.time() + 600, "alice", {"pool": "blue"}),
    }  # fmt: skip
    producer = Producer({**common, "message.timeout.ms": 15_000})
    for value in VALUES:
        producer.produce(topic, value)
    give_up = time.monotonic() + 15
    while producer.poll(0.1) >= 0 and len(producer) and time.monotonic() < give_up:
        for error in errors:
            if error.code() == KafkaError._AUTHENTICATION:
                producer.purge()
                raise KafkaException(error)
    assert not len(producer)
    consumer = Consumer({**common, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[bytes] = []
    while len(found) < len(VALUES) and time.monotonic() < give_up + 15:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            found.append(message.value())
    consumer.close()
    return found


def kafka_python(bootstrap: str, renew: Renew, topic: str) -> list[bytes]:
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Provider(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return renew()

    common = {
        "bootstrap_servers": bootstrap, "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": Provider(),
    }  # fmt: skip
    producer = KafkaProducer(**common)
    for value in VALUES:
        producer.send(topic, value).get(15)
    producer.close()
    consumer = KafkaConsumer(
        topic, auto_offset_reset="earliest", consumer_timeout_ms=5000, **common
    )
    found = [next(consumer).value for _ in VALUES]
    consumer.close()
    return found


def aiokafka(bootstrap: str, renew: Renew, topic: str) -> list[bytes]:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
    from aiokafka.abc import AbstractTokenProvider

    class Provider(AbstractTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return renew()

    common: dict[str, Any] = {
        "bootstrap_servers": bootstrap, "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": Provider(),
    }  # fmt: skip

    async def story() -> list[bytes]:
        producer = AIOKafkaProducer(**common)
        try:
            await producer.start()
            for value in VALUES:
                await producer.send_and_wait(topic, value)
        finally:
            await producer.stop()
        consumer = AIOKafkaConsumer(topic, auto_offset_reset="earliest", **common)
        await consumer.start()
        try:
            return [(await consumer.getone()).value for _ in VALUES]
        finally:
            await consumer.stop()

    return asyncio.run(asyncio.wait_for(story(), 60))


CLIENTS = [librdkafka, kafka_python, aiokafka]


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.__name__)
def test_a_token_lets_stock_clients_produce_and_consume(
    broker: BrokerThread, client: Client, algorithm: str
) -> None:
    topic = f"{client.__name__}-{algorithm}"
    found = client(broker.bootstrap, lambda: good(algorithm=algorithm), topic)
    assert found == VALUES


@pytest.mark.parametrize("client", [librdkafka, aiokafka], ids=lambda client: client.__name__)
def test_a_refused_token_lets_nobody_in_and_is_not_shown(
    broker: BrokerThread, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """Not kafka-python: it tries for half a minute, as it does with wrong passwords."""
    caplog.set_level(logging.DEBUG, "headrace")
    bad = good(aud="elsewhere")
    with pytest.raises(Exception) as raised:  # noqa: PT011 - each client has its own
        client(broker.bootstrap, lambda: bad, "never")
    if client is librdkafka:  # aiokafka only says that it reaches nobody
        assert "invalid_token" in str(raised.value)
    assert "authentication by OAUTHBEARER failed: a token for another audience" in caplog.text
    assert bad not in "".join(
        record.getMessage() for record in caplog.records if record.name.startswith("headrace")
    )


def test_librdkafka_brings_newer_tokens_to_the_same_connection(broker: BrokerThread) -> None:
    """Its consumer goes on over the ends of several tokens of a few seconds each."""
    from confluent_kafka import Consumer, Producer

    asked: list[str] = []

    def renew(_: str) -> tuple[str, float]:
        asked.append(good(3))
        return asked[-1], time.time() + 3

    common = {
        "bootstrap.servers": broker.bootstrap, "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER", "oauth_cb": renew, "log_level": 0,
    }  # fmt: skip
    producer = Producer({**common, "message.timeout.ms": 20_000})
    consumer = Consumer({**common, "group.id": "long", "auto.offset.reset": "earliest"})
    consumer.subscribe(["long"])
    found: list[int] = []
    sent, until = 0, time.monotonic() + 8
    while time.monotonic() < until or (len(found) < sent and time.monotonic() < until + 15):
        if time.monotonic() < until:
            producer.produce("long", str(sent).encode())
            sent += 1
        producer.poll(0.1)
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            found.append(int(message.value()))
    assert producer.flush(20) == 0
    consumer.close()
    assert sorted(set(found)) == list(range(sent))
    assert len(asked) > 2


def test_our_command_brings_the_token_of_a_file(
    broker: BrokerThread, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token, config = tmp_path / "token", tmp_path / "client.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
        f"sasl.oauthbearer.token.endpoint.url=file:{token}\n"
    )
    say = sayer(broker.bootstrap, capsys)
    words = ("topic", "list", "--command-config", str(config))
    token.write_text(good() + "\n")
    assert say(*words)[0] == 0
    token.write_text(bad := good(iss="elsewhere"))
    code, _, said = say(*words)
    assert code != 0
    assert "invalid_token" in said
    assert bad not in said
    token.unlink()
    code, _, said = say(*words)
    assert code != 0
    assert "no such file" in said
