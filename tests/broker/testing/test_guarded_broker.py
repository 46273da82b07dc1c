"""A test's broker that asks who connects: stock clients come in by the settings they are given."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer
from kafka import KafkaProducer

from headrace.cli.main import run as command
from headrace.config.properties import render
from headrace.testing.broker import BrokerThread
from headrace.testing.guard import USER

WAYS = [
    ("SASL_SSL", "SCRAM-SHA-512"),
    ("SASL_PLAINTEXT", "PLAIN"),
    ("SASL_PLAINTEXT", "SCRAM-SHA-256"),
    ("SSL", "SCRAM-SHA-512"),
    (None, "SCRAM-SHA-512"),
]


def by_confluent_kafka(broker: BrokerThread) -> None:
    producer = Producer(broker.clients.librdkafka)
    producer.produce("t", b"librdkafka")
    assert producer.flush(20) == 0


def by_kafka_python(broker: BrokerThread) -> None:
    producer = KafkaProducer(**broker.clients.kafka_python)
    producer.send("t", b"kafka-python").get(20)
    producer.close()


def by_aiokafka(broker: BrokerThread) -> None:
    async def story() -> None:
        async with AIOKafkaProducer(**broker.clients.aiokafka, acks="all") as producer:
            await producer.send_and_wait("t", b"aiokafka")

    asyncio.run(story())


def by_the_command(broker: BrokerThread) -> None:
    file = broker.clients.file
    words = ["topic", "list", "-b", broker.bootstrap]
    assert command([*words, *(("--command-config", str(file)) if file else ())]) == 0


@pytest.mark.parametrize(("security", "mechanism"), WAYS)
def test_clients_of_each_kind_come_in_by_the_settings_they_are_given(
    security: str | None, mechanism: str
) -> None:
    with BrokerThread(security=security, mechanism=mechanism, memory=True) as broker:
        broker.create_topics("t")
        for come_in in (by_confluent_kafka, by_kafka_python, by_aiokafka, by_the_command):
            come_in(broker)
        values = [record.value for record in broker.records("t")]
        assert values == [b"librdkafka", b"kafka-python", b"aiokafka"]


def test_who_has_no_password_is_refused() -> None:
    with BrokerThread(security="SASL_SSL", memory=True) as broker:
        file = broker.clients.file
        assert file is not None
        file.write_text(file.read_text().replace('password="', 'password="x'))
        words = ["topic", "list", "-b", broker.bootstrap, "--command-config", str(file)]
        assert command(words) != 0


def test_the_keys_go_with_the_broker_and_are_its_owners_alone() -> None:
    with BrokerThread(security="SASL_SSL", memory=True) as broker:
        file = broker.clients.file
        assert file is not None
        before = os.stat(file)
        assert before.st_mode & 0o777 == 0o600
        assert file.parent.stat().st_mode & 0o077 == 0
        password = broker.clients.librdkafka["sasl.password"]
        assert password not in repr(broker.clients)
        assert password in file.read_text()
        assert password not in repr(broker.clients.spark)
    assert not file.parent.exists()


def test_two_brokers_have_nothing_in_common() -> None:
    with (
        BrokerThread(security="SASL_SSL", memory=True) as one,
        BrokerThread(security="SASL_SSL", memory=True) as other,
    ):
        file = other.clients.file
        words = ["topic", "list", "-b", one.bootstrap, "--command-config", str(file)]
        assert command(words) != 0


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"security": "TLS"}, "must be one of SSL"),
        ({"mechanism": "GSSAPI"}, "must be one of PLAIN"),
    ],
)
def test_what_there_is_not_is_refused(given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        BrokerThread(**{"security": "SASL_SSL", **given}).start()


def test_the_user_is_a_super_user_beside_acls_and_again_after_a_restart(tmp_path: Path) -> None:
    config = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    for _ in range(2):
        with BrokerThread(config, security="SASL_SSL", directory=str(tmp_path / "d")) as broker:
            words = ["acl", "list", "-b", broker.bootstrap]
            assert command([*words, "--command-config", str(broker.clients.file)]) == 0
            assert broker.clients.librdkafka["sasl.username"] == USER


def test_who_shows_no_certificate_is_refused(tmp_path: Path) -> None:
    with BrokerThread(security="SSL", memory=True) as broker:
        stranger = {
            key: value for key, value in broker.clients.java.items() if "keystore" not in key
        }
        file = tmp_path / "client.properties"
        file.write_text(render(stranger))
        words = ["topic", "list", "-b", broker.bootstrap, "--command-config", str(file)]
        assert command(words) != 0
