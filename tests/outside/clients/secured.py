"""How a client says who it is, in the words of each client; and what Python's clients do then."""

import asyncio
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headrace.config.authentication.jaas import PLAIN_MODULE, SCRAM_MODULE
from tests.support.security.certificates import Certificate
from tests.support.security.sasl_kit import PASSWORD, USER

VALUES = [b"1", b"2", b"3"]
SECONDS_MAX = 30.0


@dataclass(frozen=True)
class Security:
    """One way to a listener, as a client is told of it."""

    mechanism: str | None = None
    """None: nobody authenticates by SASL."""
    authority: Path | None = None
    """None: no TLS."""
    certificate: Certificate | None = None
    password: str = PASSWORD

    @property
    def protocol(self) -> str:
        """Kafka's name of what is spoken."""
        tls = self.authority is not None
        if self.mechanism is None:
            return "SSL" if tls else "PLAINTEXT"
        return "SASL_SSL" if tls else "SASL_PLAINTEXT"

    def with_password(self, password: str) -> "Security":
        """Return the same with another password."""
        return replace(self, password=password)

    def librdkafka(self) -> dict[str, str]:
        """Return librdkafka's settings; franz-go's and KafkaJS's programs read them too."""
        found = {"security.protocol": self.protocol}
        if self.mechanism is not None:
            found |= {"sasl.mechanism": self.mechanism, "sasl.username": USER,
                      "sasl.password": self.password}  # fmt: skip
        if self.authority is not None:
            found["ssl.ca.location"] = str(self.authority)
        if self.certificate is not None:
            found |= {"ssl.certificate.location": str(self.certificate.chain),
                      "ssl.key.location": str(self.certificate.key)}  # fmt: skip
        return found

    def java(self) -> dict[str, str]:
        """Return the settings of Apache's client."""
        found = {"security.protocol": self.protocol}
        if self.mechanism is not None:
            module = PLAIN_MODULE if self.mechanism == "PLAIN" else SCRAM_MODULE
            told = f'{module} required username="{USER}" password="{self.password}";'
            found |= {"sasl.mechanism": self.mechanism, "sasl.jaas.config": told}
        if self.authority is not None:
            found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.authority)}
        if self.certificate is not None:
            found |= {"ssl.keystore.type": "PEM",
                      "ssl.keystore.location": str(self.certificate.both)}  # fmt: skip
        return found

    def kafka_python(self) -> dict[str, Any]:
        """Return kafka-python's arguments."""
        found: dict[str, Any] = {"security_protocol": self.protocol}
        if self.mechanism is not None:
            found |= {"sasl_mechanism": self.mechanism, "sasl_plain_username": USER,
                      "sasl_plain_password": self.password}  # fmt: skip
        if self.authority is not None:
            found["ssl_cafile"] = str(self.authority)
        if self.certificate is not None:
            found |= {"ssl_certfile": str(self.certificate.chain),
                      "ssl_keyfile": str(self.certificate.key)}  # fmt: skip
        return found

    def aiokafka(self) -> dict[str, Any]:
        """Return aiokafka's arguments."""
        tls = ("ssl_cafile", "ssl_certfile", "ssl_keyfile")
        found = {name: one for name, one in self.kafka_python().items() if name not in tls}
        if self.authority is not None:
            found["ssl_context"] = ssl.create_default_context(cafile=str(self.authority))
            if self.certificate is not None:
                found["ssl_context"].load_cert_chain(self.certificate.both)
        return found


Story = Callable[[str, Security, str], list[bytes]]
"""Writes `VALUES` to a topic, reads them in a group, and writes them in a transaction: bootstrap,
security, topic. Returns what was read."""


def librdkafka(bootstrap: str, security: Security, topic: str) -> list[bytes]:
    from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

    errors: list[KafkaError] = []
    common = {
        "bootstrap.servers": bootstrap, "error_cb": errors.append, "log_level": 0,
        **security.librdkafka(),
    }  # fmt: skip
    producer = Producer({**common, "message.timeout.ms": 15_000})
    for value in VALUES:
        producer.produce(topic, value)
    give_up = time.monotonic() + SECONDS_MAX
    while producer.poll(0.1) >= 0 and len(producer) and time.monotonic() < give_up:
        for error in errors:
            if error.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL):
                producer.purge()
                raise KafkaException(error)
    assert not len(producer), errors
    transactional = Producer({**common, "transactional.id": topic})
    transactional.init_transactions(SECONDS_MAX)
    transactional.begin_transaction()
    transactional.produce(topic, b"4")
    transactional.commit_transaction(SECONDS_MAX)
    consumer = Consumer({**common, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[bytes] = []
    while len(found) < len(VALUES) + 1 and time.monotonic() < give_up + SECONDS_MAX:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            found.append(message.value())
    consumer.commit(asynchronous=False)
    consumer.close()
    return found


def kafka_python(bootstrap: str, security: Security, topic: str) -> list[bytes]:
    from kafka import KafkaConsumer, KafkaProducer

    common = {"bootstrap_servers": bootstrap, **security.kafka_python()}
    producer = KafkaProducer(**common)
    try:
        for value in VALUES:
            producer.send(topic, value).get(SECONDS_MAX)
    finally:
        producer.close()
    transactional = KafkaProducer(transactional_id=topic, **common)
    transactional.init_transactions()
    transactional.begin_transaction()
    transactional.send(topic, b"4")
    transactional.commit_transaction()
    transactional.close()
    consumer = KafkaConsumer(
        topic, group_id=topic, auto_offset_reset="earliest",
        consumer_timeout_ms=SECONDS_MAX * 1000, **common,
    )  # fmt: skip
    found = [next(consumer).value for _ in range(len(VALUES) + 1)]
    consumer.commit()
    consumer.close()
    return found


def aiokafka(bootstrap: str, security: Security, topic: str) -> list[bytes]:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    async def story() -> list[bytes]:
        common = {"bootstrap_servers": bootstrap, **security.aiokafka()}
        producer = AIOKafkaProducer(**common)
        try:
            await producer.start()
            for value in VALUES:
                await producer.send_and_wait(topic, value)
        finally:
            await producer.stop()
        transactional = AIOKafkaProducer(transactional_id=topic, **common)
        async with transactional, transactional.transaction():
            await transactional.send_and_wait(topic, b"4")
        consumer = AIOKafkaConsumer(topic, group_id=topic, auto_offset_reset="earliest", **common)
        await consumer.start()
        try:
            found = [(await consumer.getone()).value for _ in range(len(VALUES) + 1)]
            await consumer.commit()
            return found
        finally:
            await consumer.stop()

    return asyncio.run(asyncio.wait_for(story(), 3 * SECONDS_MAX))


STORIES: dict[str, Story] = {
    "librdkafka": librdkafka,
    "kafka-python": kafka_python,
    "aiokafka": aiokafka,
}
