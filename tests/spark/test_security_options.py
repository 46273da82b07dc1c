"""A client's settings of security, options and a file's: read in one place, shown nowhere."""

import pickle
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.client.admin.groups import committed
from headrace.client.sync import run
from headrace.client.transport.port import Refused
from headrace.config.authentication.jaas import SCRAM_MODULE
from headrace.model.nouns import TopicPartition
from headrace.spark import security
from headrace.spark.errors import OptionError, SinkError, SourceError
from headrace.spark.security import Security
from headrace.spark.sink.sink_options import SinkOptions, parse_sink_options
from headrace.spark.sink.sink_task import knock
from headrace.spark.source.connections import FetchConnections
from headrace.spark.source.offsets import Position
from headrace.spark.source.options import Fetching, Options, parse_options
from headrace.spark.source.read import RangePartition, RangeReader
from headrace.spark.source.stream_reader import StreamReader
from headrace.testing.broker import BrokerThread
from tests.support.security.certificates import Authority
from tests.support.security.sasl_kit import PASSWORD, USER, add_scram_users, guarded

SECRET = "planted-secret-4711"
SASL = {
    "kafka.security.protocol": "SASL_PLAINTEXT",
    "kafka.sasl.mechanism": "SCRAM-SHA-512",
    "kafka.sasl.username": USER,
    "kafka.sasl.password": PASSWORD,
}


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    """One that asks who connects."""
    with guarded() as running:
        add_scram_users(running)
        running.create_topics("t")
        yield running


def source(**options: str) -> Options:
    given = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"} | options
    return parse_options({key: value for key, value in given.items() if value}, streaming=False)


def sink(**options: str) -> SinkOptions:
    given = {"kafka.bootstrap.servers": "h:1", "pipeline": "p", "topic": "t"} | options
    return parse_sink_options(
        {key: value for key, value in given.items() if value}, streaming=False
    )


def file_of(tmp_path: Path, **settings: str) -> str:
    path = tmp_path / "client.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return str(path)


def test_both_names_of_credentials_are_taken_by_source_and_sink() -> None:
    jaas = f'{SCRAM_MODULE} required username="{USER}" password="{PASSWORD}";'
    by_jaas = {**SASL, "kafka.sasl.jaas.config": jaas}
    by_librdkafka = {**SASL, "KAFKA.SASL.Password": PASSWORD}
    del by_jaas["kafka.sasl.username"], by_jaas["kafka.sasl.password"]
    del by_librdkafka["kafka.sasl.password"]
    for options in (by_jaas, by_librdkafka):
        for found in (source(**options).fetching.security, sink(**options).security):
            _, credentials = found._resolve()
            assert credentials is not None
            assert (credentials.user, credentials.password.reveal()) == (USER, PASSWORD)
            assert credentials.mechanism == "SCRAM-SHA-512"


def test_plain_text_said_in_words_is_what_nothing_said_is() -> None:
    plain = {"kafka.security.protocol": "plaintext", "kafka.sasl.mechanism": "PLAIN"}
    assert source(**plain).fetching.security == security.NO_SECURITY
    assert not sink(**plain).security.guarded


def test_a_file_alone_says_it_all_and_is_read_anew(tmp_path: Path) -> None:
    settings = {key.removeprefix("kafka."): value for key, value in SASL.items()}
    name = file_of(tmp_path, **settings, **{"bootstrap.servers": "h:7", "acks": "1"})
    options = source(configFile=name, **{"kafka.bootstrap.servers": ""})
    assert options.bootstrap == "h:7"
    assert options.ignored == ("acks (of configFile)",)
    assert sink(configFile=name).ignored == ("acks (of configFile)",)
    found = options.fetching.security
    assert PASSWORD not in repr(pickle.dumps(options))
    file_of(tmp_path, **(settings | {"sasl.password": "another"}))
    _, credentials = found._resolve()
    assert credentials is not None
    assert credentials.password.reveal() == "another"


def test_options_outweigh_the_file_and_no_user_gets_anothers_password(tmp_path: Path) -> None:
    name = file_of(
        tmp_path,
        **{
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{SCRAM_MODULE} required username="eve" password="{SECRET}";',
        },
    )
    options = source(
        configFile=name,
        **{"kafka.sasl.username": USER, "kafka.sasl.password": PASSWORD},
    )
    _, credentials = options.fetching.security._resolve()
    assert credentials is not None
    assert (credentials.user, credentials.password.reveal()) == (USER, PASSWORD)
    with pytest.raises(OptionError, match="needs username and password"):
        source(configFile=name, **{"kafka.sasl.username": USER})


def test_a_file_that_spark_has_sent_along_is_found_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark import SparkFiles

    file_of(tmp_path, **{"security.protocol": "PLAINTEXT", "bootstrap.servers": "sent:1"})
    monkeypatch.setattr(SparkFiles, "_is_running_on_worker", True)
    monkeypatch.setattr(SparkFiles, "_root_directory", str(tmp_path))
    options = source(configFile="client.properties", **{"kafka.bootstrap.servers": ""})
    assert options.bootstrap == "sent:1"


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"kafka.security.protocol": "TLS"}, r"^kafka\.security\.protocol=TLS: must be one of"),
        ({"kafka.sasl.password": SECRET}, r"^kafka\.security\.protocol: missing"),
        ({**SASL, "kafka.sasl.mechanism": "GSSAPI"}, r"^kafka\.sasl\.mechanism=GSSAPI: must be"),
        ({**SASL, "kafka.sasl.jaas.config": f"{SECRET} x"}, r"^kafka\.sasl\.jaas\.config=…"),
        (
            {"kafka.security.protocol": "SSL", "kafka.ssl.truststore.location": "/none"},
            r"^kafka\.ssl\.truststore\.location.*no such file",
        ),
        (
            {"kafka.security.protocol": "SSL", "kafka.ssl.x": SECRET},
            r"^kafka\.ssl\.x: unknown setting",
        ),
        ({"kafka.ssl.keystore.key": SECRET}, "Spark shows this option in its plans"),
        ({"kafka.ssl.key.pem": SECRET}, "Spark shows this option in its plans"),
        ({"configFile": "/none"}, "^configFile /none: no such file"),
    ],
)
def test_what_cannot_be_followed_is_refused_by_name_without_the_secret(
    options: dict[str, str], complaint: str
) -> None:
    for read in (source, sink):
        with pytest.raises(OptionError, match=complaint) as refused:
            read(**options)
        assert SECRET not in str(refused.value)


def test_what_is_wrong_in_the_file_names_the_file_and_quotes_none_of_it(tmp_path: Path) -> None:
    name = file_of(tmp_path, **{"security.protocol": "KERBEROS"})
    with pytest.raises(OptionError, match=f"^configFile {name}: security.protocol=KERBEROS"):
        source(configFile=name)
    Path(name).write_text(f"sasl.password={SECRET}\\u12\n")
    with pytest.raises(OptionError, match="four hexadecimal digits") as refused:
        source(configFile=name)
    assert SECRET not in str(refused.value)


def test_no_repr_shows_a_secret() -> None:
    options = source(**{**SASL, "kafka.sasl.password": SECRET})
    task = RangePartition("h:1", "t", 0, 0, 1, (), True, options.fetching)
    shown = [options, options.fetching, options.fetching.security, task]
    shown.append(sink(**{**SASL, "kafka.sasl.password": SECRET}))
    assert SECRET not in repr(shown)
    assert USER not in repr(shown)


def test_offsets_name_the_file_and_never_what_was_an_option(
    broker: BrokerThread, tmp_path: Path
) -> None:
    name = file_of(tmp_path, **{key.removeprefix("kafka."): value for key, value in SASL.items()})
    for options, told in (({"configFile": name}, False), (SASL, True)):
        parsed = parse_options(
            {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": "t"} | options,
            streaming=True,
        )
        reader = StreamReader(parsed, _schema(), commits=False)
        offset = reader.initialOffset()
        reader.stop()
        position = Position.of_json(offset)
        assert position.told_by_source is told
        assert position.config_file == options.get("configFile", "")
        assert PASSWORD not in repr(offset)


def test_the_source_shows_its_group_itself_where_the_listener_knows_no_password(
    broker: BrokerThread,
) -> None:
    options = {"kafka.bootstrap.servers": broker.bootstrap, "kafka.group.id": "shown", **SASL}
    parsed = parse_options({"subscribe": "t", **options}, streaming=True)
    reader = StreamReader(parsed, _schema(), commits=False)
    reader.commit(reader.initialOffset())
    reader.stop()
    with parsed.fetching.security.client(
        broker.bootstrap, client_id="c", request_timeout_seconds=20.0, retry_seconds=20.0
    ) as client:
        assert TopicPartition("t", 0) in run(committed(client, "shown"))


def _schema() -> Any:
    from headrace.spark.source.columns import row_schema

    return row_schema(("value",))


def test_a_kept_connection_is_for_who_made_it(broker: BrokerThread) -> None:
    connections = FetchConnections()
    address = _address(broker)
    alice = source(**SASL).fetching.security
    bob = Security((*alice.given, ("ssl.x", "y")))
    first = connections.take(address, "c", 5.0, alice)
    connections.give_back(first, alice)
    other = connections.take(address, "c", 5.0, bob)
    assert other is not first
    assert connections.take(address, "c", 5.0, alice) is first
    other.close()
    first.close()


def _address(broker: BrokerThread) -> Any:
    from headrace.client.transport.port import Address

    return Address("127.0.0.1", broker.port)


def test_a_task_with_a_wrong_password_fails_at_once(broker: BrokerThread) -> None:
    wrong = source(**{**SASL, "kafka.sasl.password": SECRET}).fetching.security
    for leader in (None, _address(broker)):
        task = RangePartition(
            broker.bootstrap, "t", 0, 0, 10, ("value",), True,
            Fetching(poll_timeout_ms=3_600_000, security=wrong), leader=leader,
        )  # fmt: skip
        with pytest.raises(SourceError, match=f"user {USER}: Authentication failed") as refused:
            list(RangeReader(task).batches())
        assert SECRET not in str(refused.value)


def test_the_driver_says_that_a_write_at_least_once_is_refused(broker: BrokerThread) -> None:
    servers = {"kafka.bootstrap.servers": broker.bootstrap, "delivery": "at_least_once"}
    knock(sink(**servers, **SASL))
    with pytest.raises(SinkError, match=f"user {USER}: Authentication failed"):
        knock(sink(**servers, **{**SASL, "kafka.sasl.password": SECRET}))


def test_certificates_are_read_again_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusted = str(Authority(tmp_path).certificate)
    options = {"kafka.security.protocol": "SSL", "kafka.ssl.truststore.location": trusted}
    found = source(**options).fetching.security
    first, _ = found._resolve()
    assert first is not None
    assert found._resolve()[0] is first
    monkeypatch.setattr(security, "CONTEXT_SECONDS_MAX", 0.0)
    assert found._resolve()[0] is not first


def test_a_context_is_used_for_a_minute_and_only_some_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1000.0
    monkeypatch.setattr(security, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(security, "client_context", lambda settings: object())
    contexts = security._Contexts()
    first = contexts.of({"of": "0"})
    now += 59.9
    assert contexts.of({"of": "0"}) is first
    now += 0.2
    second = contexts.of({"of": "0"})
    assert second is not first
    for number in range(40):
        contexts.of({"of": str(number)})
        assert len(contexts._kept) <= 16


def test_a_broker_that_wants_a_certificate_is_not_asked_again(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.location": str(authority.sign().both),
        "ssl.truststore.location": str(authority.certificate),
        "ssl.client.auth": "required",
    }
    stranger = Authority(tmp_path, "stranger")
    told: list[Exception] = []
    with BrokerThread(settings) as broker:
        for trusted, complaint in (
            (authority, "the broker refuses the client's certificate"),
            (stranger, "its certificate is refused"),
        ):
            options = {
                "kafka.security.protocol": "SSL",
                "kafka.ssl.ca.location": str(trusted.certificate),
            }
            found = source(**options).fetching.security
            with found.client(
                broker.bootstrap, client_id="c", request_timeout_seconds=30.0, retry_seconds=10.0
            ) as client:
                client.on_retry = told.append
                with pytest.raises(Refused, match=complaint):
                    run(client.metadata())
    assert not [error for error in told if isinstance(error, Refused)]


def test_the_listener_knows_the_file_by_its_name_in_the_offsets() -> None:
    position = Position("h:1", {TopicPartition("t", 0): 3}, config_file="/etc/client.properties")
    assert Position.of_json(position.to_json()) == position
    told = Position("h:1", {TopicPartition("t", 0): 3}, told_by_source=True)
    assert Position.of_json(told.to_json()) == told
