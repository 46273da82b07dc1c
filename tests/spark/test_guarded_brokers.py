"""Brokers that ask who connects, on real Spark: all of it works, and no secret is shown."""

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.client.admin.groups import committed
from headrace.client.sync import connect, run
from headrace.client.transport.credentials import credentials_in
from headrace.config.authentication.jaas import SCRAM_MODULE
from headrace.posix.tls_client import client_context
from headrace.testing.broker import BrokerThread
from tests.spark.long import long_only
from tests.spark.sink_kit import sink_of, started
from tests.spark.waiting import eventually
from tests.support.security.certificates import Authority
from tests.support.security.sasl_kit import add_scram_users

USER = "spark"
PASSWORD = "planted-password-5177"
STORE_PASSWORD = "planted-store-9021"
SECRETS = (PASSWORD, STORE_PASSWORD)
ROWS = 40


class Guarded:
    """A broker with a listener for SCRAM and one for certificates, and how to come to each."""

    def __init__(self, directory: Path) -> None:
        authority = Authority(directory)
        mine = authority.sign("client", "/CN=spark")
        self._directory = directory
        trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": authority.certificate}
        jaas = f'{SCRAM_MODULE} required username="{USER}" password="{PASSWORD}";'
        self.settings = {
            "scram": {
                **trust,
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.jaas.config": jaas,
            },
            "certificate": {
                **trust,
                "security.protocol": "SSL",
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.location": mine.pkcs12(STORE_PASSWORD),
                "ssl.keystore.password": STORE_PASSWORD,
            },
        }
        self.broker = BrokerThread(
            {
                "listeners": "SCRAM://127.0.0.1:0,CERTIFICATE://127.0.0.1:0",
                "listener.security.protocol.map": "SCRAM:SASL_SSL,CERTIFICATE:SSL",
                "inter.broker.listener.name": "SCRAM",
                "sasl.enabled.mechanisms": "SCRAM-SHA-512",
                "ssl.keystore.location": str(authority.sign().both),
                "ssl.truststore.location": str(authority.certificate),
                "listener.name.certificate.ssl.client.auth": "required",
                "super.users": f"User:{USER};User:CN=spark",
            }
        )

    def bootstrap(self, way: str) -> str:
        index = list(self.settings).index(way)
        return f"127.0.0.1:{self.broker.server.listeners[index].port}"

    def options(self, way: str, place: str) -> dict[str, str]:
        """What a reader or writer is given, each setting by itself or all in a file."""
        settings = {name: str(value) for name, value in self.settings[way].items()}
        if place == "options":
            return {f"kafka.{name}": value for name, value in settings.items()}
        file = self._directory / f"{way}.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        return {"configFile": str(file)}

    def committed(self, group: str) -> int:
        """How far the group stands, over all partitions."""
        settings = {name: str(value) for name, value in self.settings["scram"].items()}
        with connect(
            self.bootstrap("scram"),
            tls=client_context(settings),
            credentials=credentials_in(settings),
        ) as client:
            return sum(at.offset for at in run(committed(client, group)).values())


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    made = Guarded(tmp_path_factory.mktemp("guarded"))
    with made.broker:
        add_scram_users(made.broker, USER, PASSWORD)
        yield made


def explained(frame: Any) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        frame.explain(extended=True)
        frame.explain(mode="formatted")
    return out.getvalue()


def written(*places: Path) -> str:
    files = (file for place in places for file in place.rglob("*") if file.is_file())
    return "".join(file.read_text(errors="replace") for file in files)


@pytest.mark.parametrize(
    ("way", "place"),
    [
        ("scram", "options"),
        ("certificate", "file"),
        pytest.param("scram", "file", marks=long_only),
        pytest.param("certificate", "options", marks=long_only),
    ],
)
def test_rows_go_in_and_out_exactly_once_and_no_secret_is_shown(
    spark: SparkSession,
    guarded: Guarded,
    event_log: Path,
    tmp_path: Path,
    way: str,
    place: str,
) -> None:
    options = guarded.options(way, place)
    bootstrap = guarded.bootstrap(way)
    before, after = f"in-{way}-{place}", f"out-{way}-{place}"
    guarded.broker.create_topics(before, after, partitions=2)
    rows = spark.range(ROWS).selectExpr("cast(id as string) as value")
    sink_of(rows.write, bootstrap, f"fill-{way}-{place}", topic=before, **options).mode(
        "append"
    ).save()

    group = f"g-{way}-{place}"
    reading = {"kafka.bootstrap.servers": bootstrap, "kafka.group.id": group, **options}
    stream = (
        spark.readStream.format("headrace")
        .options(**reading, subscribe=before, startingOffsets="earliest")
        .load()
    )
    checkpoint = tmp_path / "checkpoint"
    writer = sink_of(stream.writeStream, bootstrap, f"copy-{way}-{place}", topic=after, **options)
    shown = explained(stream)
    with started(writer, checkpoint) as query:
        query.processAllAvailable()
        shown += str(query.lastProgress) + str(query.recentProgress)

    frame = spark.read.format("headrace").options(**reading, subscribe=after).load()
    assert sorted(int(row["value"]) for row in frame.collect()) == list(range(ROWS))
    shown += explained(frame) + written(checkpoint, event_log)
    shown += guarded.broker.call(lambda server: repr(server.broker.image))
    assert [secret for secret in SECRETS if secret in shown] == []
    if place == "file":  # else the source shows its group itself, when the next batch begins
        assert eventually(lambda: guarded.committed(group) >= ROWS)


def test_a_wrong_password_is_one_sentence_of_the_drivers(
    spark: SparkSession, guarded: Guarded, tmp_path: Path
) -> None:
    guarded.broker.create_topics("t")
    bootstrap = guarded.bootstrap("scram")
    wrong = {
        **guarded.options("scram", "options"),
        "kafka.sasl.jaas.config": f'{SCRAM_MODULE} required username="{USER}" password="wrong-8";',
    }
    reading = {"kafka.bootstrap.servers": bootstrap, "subscribe": "t", **wrong}
    refused = f"user {USER}: Authentication failed"
    with pytest.raises(PySparkException, match=refused) as told:
        spark.read.format("headrace").options(**reading).load().collect()
    said = [str(told.value)]
    rows = spark.range(3).selectExpr("cast(id as string) as value")
    for delivery in ("exactly_once", "at_least_once"):
        with pytest.raises(PySparkException, match=refused) as told:
            sink_of(rows.write, bootstrap, "p", topic="t", delivery=delivery, **wrong).mode(
                "append"
            ).save()
        said.append(str(told.value))
    stream = spark.readStream.format("headrace").options(**reading).load()
    writer = stream.writeStream.format("noop")
    with started(writer, tmp_path / "c") as query:
        with pytest.raises(PySparkException, match=refused) as told:
            query.awaitTermination(60)
        said.append(str(told.value))
    assert not [text for text in said if "wrong-8" in text]
    assert guarded.broker.records("t") == []
