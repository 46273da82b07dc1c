"""`--value-schema` of `consume` and `query`: typed values of a broker's topic and of its files."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.cli.main import run as command
from headrace.client.producer.producer import Producer
from headrace.client.sync import connect, run
from headrace.testing import BrokerThread
from tests.support.processes.cli_kit import SCHEMAS, check

pytest.importorskip("duckdb")

DDL = "id BIGINT NOT NULL, price DECIMAL(12,2), at TIMESTAMP, tags ARRAY<STRING>"
BAD_AT = 4


def order(number: int) -> bytes:
    row = {"id": number, "price": f"{number}.50", "at": "2026-11-28T10:00:00Z", "tags": ["a"]}
    return json.dumps(row).encode()


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    values: dict[str, list[bytes | None]] = {
        "orders": [order(number) for number in range(4)],
        "mixed": [order(0), None, order(2), order(3), b'{"id":"x"}', order(5)],
        "names": [b'{"id":%d,"name":"n%d"}' % (number, number) for number in range(4)],
        "keyed": [b'{"key":1}'],
    }
    with BrokerThread() as started, connect(started.bootstrap) as client:
        producer = Producer(client)

        async def story() -> None:
            for topic, sent in values.items():
                for value in sent:
                    await producer.send(topic, value, b"k", timestamp=1000, partition=0)
            await producer.flush()

        for topic in values:
            started.create_topics(topic, partitions=1)
        run(story())
        yield started


@pytest.fixture(params=["brokers", "directory"])
def where(request: pytest.FixtureRequest, broker: BrokerThread) -> list[str]:
    """The flags that say where topics are."""
    if request.param == "brokers":
        return ["-b", broker.bootstrap]
    return ["--data", broker.directory]


def query(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[dict[str, Any]], str]:
    capfd.readouterr()
    code = command(["query", *words, "--json"])
    said = capfd.readouterr()
    return code, [json.loads(line) for line in said.out.splitlines()], said.err


def test_query_has_the_columns_of_the_schema(
    where: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    code, (row, *_), _ = query(
        capfd, "select * from orders order by id desc", "--value-schema", DDL, *where
    )
    assert code == 0
    assert list(row) == [
        "key", "value", "partition", "offset", "timestamp", "headers", "id", "price", "at", "tags",
    ]  # fmt: skip
    assert (row["id"], row["price"], row["at"], row["tags"]) == (
        3, 3.5, "2026-11-28 10:00:00+00", ["a"],
    )  # fmt: skip
    sql = "select typeof(price) t, sum(price)::VARCHAR s from orders group by all"
    found = query(capfd, sql, "--value-schema", DDL, *where)[1]
    assert found == [{"t": "DECIMAL(12,2)", "s": "8.00"}]
    sql = "select id from orders where \"offset\" = 2 and tags[1] = 'a' and key = 'k'"
    assert query(capfd, sql, "--value-schema", DDL, *where)[1] == [{"id": 2}]


def test_topics_of_a_query_have_schemas_of_their_own(
    where: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    sql = "select name, price from orders join names using (id) where id = 3"
    schemas = ["--value-schema", DDL, "--value-schema", "names=id BIGINT, name STRING"]
    assert query(capfd, sql, *schemas, *where)[1] == [{"name": "n3", "price": 3.5}]


@pytest.mark.parametrize("sql", ["select id from mixed", "select count(*) n from mixed"])
def test_query_ends_at_a_value_that_does_not_fit(
    sql: str, where: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    code, _, said = query(capfd, sql, "--value-schema", DDL, *where)
    assert code == 1
    assert f"mixed-0@{BAD_AT}: id: expected an integer" in said
    assert "--mode" in said


def test_modes_of_a_query_agree_however_many_columns_are_read(
    where: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    typed = ["--value-schema", f"{DDL}, _corrupt_record STRING", "--mode", "permissive", *where]
    found = query(capfd, 'select id, _corrupt_record c from mixed order by "offset"', *typed)[1]
    assert [row["id"] for row in found] == [0, None, 2, 3, None, 5]
    assert [row["c"] for row in found] == [None, None, None, None, '{"id":"x"}', None]
    assert query(capfd, "select count(*) n from mixed", *typed)[1] == [{"n": 6}]
    typed = ["--value-schema", DDL, "--mode", "dropmalformed", *where]
    assert query(capfd, "select count(*) n from mixed", *typed)[1] == [{"n": 5}]
    assert query(capfd, "select count(id) n from mixed", *typed)[1] == [{"n": 4}]
    assert query(capfd, 'select max("offset") n from mixed where "offset" < 5', *typed)[1] == [
        {"n": 3}
    ]


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["select 1", "--mode", "permissive"], 2, "--mode: only with --value-schema"),
        (["select 1", "--value-schema", "id LIGHT"], 2, "--value-schema: schema: expected a type"),
        (["select 1", "--value-schema", "a INT", "--value-schema", "b INT"], 2, "given twice"),
        (["select * from keyed", "--value-schema", "key INT"], 1, "the field key of the schema"),
        (["select * from keyed", "--value-schema", "Key INT"], 1, "the field Key of the schema"),
    ],
)
def test_schemas_that_cannot_be_used_are_one_error(
    words: list[str], code: int, text: str, broker: BrokerThread, capfd: pytest.CaptureFixture[str]
) -> None:
    found, rows, said = query(capfd, *words, "-b", broker.bootstrap)
    assert (found, rows) == (code, [])
    assert text in said


def consume(
    broker: BrokerThread, capfd: pytest.CaptureFixture[str], *words: str
) -> tuple[int, list[str], str]:
    capfd.readouterr()
    code = command(["consume", *words, "--from-beginning", "-e", "-b", broker.bootstrap])
    said = capfd.readouterr()
    return code, said.out.splitlines(), said.err


def test_consume_prints_values_by_the_schema(
    broker: BrokerThread, capfd: pytest.CaptureFixture[str]
) -> None:
    code, lines, _ = consume(broker, capfd, "orders", "--value-schema", DDL, "-n", "1")
    assert (code, lines) == (
        0, ['{"id":0,"price":0.50,"at":"2026-11-28T10:00:00Z","tags":["a"]}'],
    )  # fmt: skip
    mode = ["--value-schema", DDL, "--mode", "permissive", "--json"]
    code, lines, _ = consume(broker, capfd, "mixed", *mode)
    schema = json.loads((SCHEMAS / "consume.json").read_text())
    for line in lines:
        check(schema, json.loads(line))
    rows = [json.loads(line) for line in lines]
    fields = [row.get("fields") for row in rows]
    assert [each and each["id"] for each in fields] == [0, None, 2, 3, None, 5]
    assert (rows[1]["value"], fields[1]) == (None, None)
    assert rows[BAD_AT]["value"] == '{"id":"x"}'
    assert fields[BAD_AT] == {"id": None, "price": None, "at": None, "tags": None}


def test_consume_ends_at_a_value_that_does_not_fit_after_those_before_it(
    broker: BrokerThread, capfd: pytest.CaptureFixture[str]
) -> None:
    format_ = ["-f", "%o\\n", "--value-schema", DDL]
    code, lines, said = consume(broker, capfd, "mixed", *format_)
    assert (code, lines) == (1, ["0", "1", "2", "3"])
    assert f"mixed-0@{BAD_AT}: id: expected an integer" in said
    code, lines, _ = consume(broker, capfd, "mixed", *format_, "--mode", "dropmalformed")
    assert (code, lines) == (0, ["0", "1", "2", "3", "5"])


def test_group_that_met_a_refused_value_continues_there(
    broker: BrokerThread, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["mixed", "-g", "typed", "-f", "%o\\n", "--value-schema", DDL]
    assert consume(broker, capfd, *words)[:2] == (1, ["0", "1", "2", "3"])
    again = consume(broker, capfd, *words, "--mode", "dropmalformed")
    assert again[:2] == (0, ["5"])


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--mode", "permissive"], "--mode: only with --value-schema"),
        (["--value-schema", "a INT", "--formatter", "offsets"], "--value-schema and --formatter"),
        (["--value-schema", "a INT", "--json", "-f", "%v"], "--json and --format"),
    ],
)
def test_options_of_consume_that_contradict_each_other_are_refused(
    words: list[str], text: str, broker: BrokerThread, capfd: pytest.CaptureFixture[str]
) -> None:
    code, lines, said = consume(broker, capfd, "orders", *words)
    assert (code, lines) == (2, [])
    assert text in said
