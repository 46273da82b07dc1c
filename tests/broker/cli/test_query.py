"""`headrace query`: SQL on topics, of brokers and of a directory."""

import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from headrace.arrow.sql.sql_columns import infer
from headrace.cli.main import run as command
from headrace.client.producer.producer import Producer
from headrace.client.sync import connect, run
from headrace.config.installing import install_command
from headrace.record.record import Header
from headrace.testing import BrokerThread

pytest.importorskip("duckdb")

Row = tuple[bytes | None, bytes | None]


def send(broker: BrokerThread, topic: str, rows: Sequence[Row], *headers: Header) -> None:
    with connect(broker.bootstrap) as client:
        producer = Producer(client)

        async def story() -> None:
            for number, (key, value) in enumerate(rows):
                await producer.send(
                    topic, value, key, timestamp=1000, headers=headers, partition=number % 2
                )
            await producer.flush()

        run(story())


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with BrokerThread() as started:
        for topic in ("orders", "customers", "plain", "a-b", "late", "bytes", "empty"):
            started.create_topics(topic, partitions=2)
        orders = [{"id": n, "customer": n % 3, "price": n / 2, "offset": 7} for n in range(100)]
        send(started, "orders", [(b"k", json.dumps(order).encode()) for order in orders])
        names = [{"customer": n, "name": "abc"[n]} for n in range(3)]
        send(started, "customers", [(None, json.dumps(name).encode()) for name in names])
        send(started, "plain", [(None, b"one"), (b"", None)], ("h", b"v"))
        send(started, "a-b", [(None, b"x")])
        send(started, "late", [(None, b'{"n":1}')] * 4 + [(None, b'{"n":1.5}')])
        send(started, "bytes", [(None, b"text")] * 2 + [(None, b"\xff")])
        yield started


Asked = tuple[int, str, list[str]]


@pytest.fixture(params=["brokers", "directory"])
def where(request: pytest.FixtureRequest, broker: BrokerThread) -> list[str]:
    """The flags that say where topics are."""
    if request.param == "brokers":
        return ["-b", broker.bootstrap]
    return ["--data", broker.directory]


def asked(capfd: pytest.CaptureFixture[str], *words: str) -> Asked:
    """The exit code of a query, what it answered, and the lines beside."""
    capfd.readouterr()
    code = command(["query", *words])
    said = capfd.readouterr()
    return code, said.out, said.err.splitlines()


def rows_of(capfd: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    code, out, err = asked(capfd, *words, "--json")
    assert code == 0, err
    return [json.loads(line) for line in out.splitlines()]


def test_fields_of_json_values_are_columns_and_how_far_was_read_is_said(
    where: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    sql = "select customer, count(*) n, sum(price) s from orders group by all order by 1"
    code, out, said = asked(capfd, sql, *where)
    assert code == 0
    assert out.splitlines()[:2] == ["customer  n   s", "0         34  841.5"]
    assert said == [
        "orders: 100 offsets in 2 partitions, up to the last stable offset, read_committed",
        "orders: no column for offset: take it as value->>'NAME'",
    ]


def test_a_records_own_columns_are_there_and_keep_their_names(
    where: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    sql = 'select * from orders where "offset" >= 48 and partition = 1 order by "offset"'
    first, last = rows_of(capfd, sql, *where)
    assert list(first) == [
        "key", "value", "partition", "offset", "timestamp", "headers", "id", "customer", "price",
    ]  # fmt: skip
    assert (first["offset"], last["id"], last["key"]) == (48, 99, "k")
    assert first["timestamp"] == "1970-01-01 00:00:01+00"
    plain = rows_of(capfd, "select * from plain order by partition", *where)
    assert [(row["key"], row["value"]) for row in plain] == [(None, "one"), ("", None)]
    assert plain[0]["headers"] == [{"key": "h", "value": "v"}]


def test_a_column_that_is_only_asked_about_need_not_be_shown(
    where: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    sql = 'select id from orders where "offset" >= 48 and partition = 1 and key is not null'
    assert [row["id"] for row in rows_of(capfd, f"{sql} order by id", *where)] == [97, 99]


def test_topics_are_joined_and_a_topic_with_itself(
    where: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    sql = (
        "select c.name, count(*) n from orders o join customers c using (customer)"
        " join orders again on again.id = o.id group by all order by 1"
    )
    assert rows_of(capfd, sql, *where)[0] == {"name": "a", "n": 34}
    assert rows_of(capfd, 'select count(*) n from "a-b", empty', *where) == [{"n": 0}]


def test_answers_come_as_csv_and_names_that_are_there_twice_get_numbers(
    broker: BrokerThread, capfd: pytest.CaptureFixture[str]
) -> None:
    sql = "select 1 as a, 'x,\"' as a, null as b, ''::blob as c"
    assert asked(capfd, sql, "--csv", "-b", broker.bootstrap)[1] == (
        '"a","a_1","b","c"\n1,"x,""",,""\n'
    )
    assert rows_of(capfd, "select 1 as a, '\\xff'::blob as a, 'nan'::double as n") == [
        {"a": 1, "a_1": "/w==", "n": None}
    ]


def test_a_table_ends_after_so_many_rows_and_says_so(
    where: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    _, out, said = asked(capfd, "select id from orders", "--rows", "2", *where)
    assert len(out.splitlines()) == 3
    assert said[-1].startswith("the first 2 rows: ")


def test_what_does_not_fit_what_the_sample_said_is_an_error_and_not_rounded(
    where: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    code, _, said = asked(capfd, "select sum(n) from late", "--sample", "2", *where)
    assert code == 1
    assert "late: a value of n is no BIGINT" in said[-1]
    assert "--sample" in said[-1]
    assert len(said) == 2
    assert rows_of(capfd, "select sum(n) s from late", *where) == [{"s": 5.5}]


def test_bytes_that_are_no_text_end_a_query_unless_they_are_taken_as_bytes(
    where: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    sql = 'select value from bytes order by partition, "offset"'
    code, _, said = asked(capfd, sql, "--sample", "2", *where)
    assert (code, said[-1].count("--binary")) == (1, 1)
    rows = rows_of(capfd, sql, "--sample", "2", "--binary", *where)
    assert [row["value"] for row in rows] == ["dGV4dA==", "/w==", "dGV4dA=="]


@pytest.mark.parametrize(
    ("sql", "code", "line"),
    [
        ("selec 1", 1, 'Parser Error: syntax error at or near "selec"'),
        ("select 1; select 2", 1, "one statement at a time: there are 2"),
        ("", 1, "one statement at a time: there are 0"),
        ("select * from ordrs", 4, "there is no topic ordrs; did you mean orders?"),
        ("select * from a-b", 1, 'write the topic in double quotes: "a-b"'),
        ("select nope from empty", 1, 'Referenced column "nope" not found'),
        ("select cast(value as int) from plain", 1, "Could not convert string 'one' to INT32"),
    ],
)
def test_errors_of_sql_are_one_line(
    sql: str, code: int, line: str, broker: BrokerThread, capfd: pytest.CaptureFixture[str]
) -> None:
    got, out, said = asked(capfd, sql, "-b", broker.bootstrap)
    assert (got, out) == (code, "")
    assert said[-1].startswith("headrace: ")
    assert line in said[-1]
    assert sum(text.startswith("headrace: ") for text in said) == 1


def test_what_a_topic_got_after_its_bound_was_taken_is_not_read(broker: BrokerThread) -> None:
    from headrace.arrow.sql.sql import TopicSql
    from headrace.arrow.sql.topic_source import ClusterTopics, DirectoryTopics

    broker.create_topics("growing", partitions=2)
    send(broker, "growing", [(None, b"1")])
    for source in (
        DirectoryTopics(broker.directory),
        ClusterTopics(lambda: connect(broker.bootstrap), print),
    ):
        with TopicSql(source) as session:
            counted = b"".join(session.answer("select count(*) n from growing").json_lines())
            send(broker, "growing", [(None, b"2")] * 2)
            again = b"".join(session.answer("select count(*) n from growing").json_lines())
            assert counted == again


def test_all_partitions_are_read_however_many_there_are(broker: BrokerThread) -> None:
    from headrace.arrow.sql.sql import TopicSql
    from headrace.arrow.sql.topic_source import PARTITIONS_AT_ONCE, ClusterTopics

    partitions = 2 * PARTITIONS_AT_ONCE + 1
    broker.create_topics("wide", partitions=partitions)
    with connect(broker.bootstrap) as client:
        producer = Producer(client)

        async def story() -> None:
            for number in range(partitions):
                await producer.send("wide", b"x", timestamp=1, partition=number)
            await producer.flush()

        run(story())
    with TopicSql(ClusterTopics(lambda: connect(broker.bootstrap), print)) as session:
        answer = session.answer("select count(distinct partition) n from wide")
        assert json.loads(b"".join(answer.json_lines())) == {"n": partitions}


def test_the_extra_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "duckdb" else 1)
    code, _, said = asked(capfd, "select 1")
    assert (code, said) == (
        1,
        ["headrace: duckdb is missing: " + install_command("duckdb", "pyarrow", "numba", "numpy")],
    )


def test_a_sample_gives_each_field_the_type_all_its_values_have() -> None:
    values = [
        b'{"a":1,"b":1,"c":"x","d":[1],"e":null,"f":1,"G":true,"g":1,"key":2,"q\\"":1,"h":9223372036854775808}',
        b'{"a":-5,"b":1.5,"c":null,"f":"x"}',
        None,
    ]
    assert infer(values, ("key",)).types == {
        "a": "BIGINT", "b": "DOUBLE", "c": "VARCHAR", "d": "JSON", "e": "JSON", "f": "JSON",
        "G": "BOOLEAN", "h": "JSON",
    }  # fmt: skip
    assert infer(values, ("key",)).left_out == ["g", "key", 'q"']
    for other in (b"[1]", b"\xff", b"{", b"text", b""):
        found = infer([None, b'{"a":1}', other, b'{"b":1}'], ())
        assert found.types == {"a": "BIGINT", "b": "BIGINT"}
        assert (found.looked_at, found.others) == (3, (2,))
    assert infer([b"text", b"[1]"], ()).types == {}


@pytest.mark.parametrize("broken", [b'{"id":', b"text", b"[1]", b"7", b"\xff\xfe", b""])
def test_values_that_are_no_json_object_are_null_and_told_once(
    broker: BrokerThread, capfd: pytest.CaptureFixture[str], broken: bytes
) -> None:
    topic = f"broken-{broken.hex()}"
    broker.create_topics(topic, partitions=1)
    send(broker, topic, [(None, b'{"id":1}')])
    with connect(broker.bootstrap) as client:
        producer = Producer(client)

        async def story() -> None:
            for value in (broken, broken, b'{"id":2}', None):
                await producer.send(topic, value, timestamp=1, partition=0)
            await producer.flush()

        run(story())
    sql = f'select id from "{topic}" order by "offset"'
    code, out, said = asked(capfd, sql, "-b", broker.bootstrap, "--json")
    assert code == 0, said
    assert [json.loads(line)["id"] for line in out.splitlines()] == [1, None, None, 2, None]
    told = (
        "2 of 4 values looked at are not JSON objects and null in these columns; the first is"
        f" {topic}-0@1"
    )
    assert sum(told in line for line in said) == 1


@pytest.mark.parametrize("sql", ["show tables", " SHOW  ALL tables;"])
def test_show_tables_lists_the_topics(
    where: list[str], capfd: pytest.CaptureFixture[str], sql: str
) -> None:
    names = [row["name"] for row in rows_of(capfd, sql, *where)]
    assert {"orders", "customers", "a-b", "empty"} <= set(names)
    assert names == sorted(names)


def test_show_tables_without_topics_is_empty(capfd: pytest.CaptureFixture[str]) -> None:
    with BrokerThread() as broker:
        assert rows_of(capfd, "show tables", "-b", broker.bootstrap) == []


def test_a_topic_without_json_gets_no_note_about_it(
    broker: BrokerThread, capfd: pytest.CaptureFixture[str]
) -> None:
    _, _, said = asked(capfd, 'select count(*) from "a-b"', "-b", broker.bootstrap)
    assert len(said) == 1
