"""SQL on topics by DuckDB: each topic is a table that is read as a stream.

    with TopicSql(DirectoryTopics("./headrace-data")) as session:
        for chunk in session.answer('select count(*) from orders').json_lines():
            ...

Only what a query itself must keep (groups, sorts, one side of a join) is in memory, and at most
`memory` of that: beyond it DuckDB spills to a temporary directory.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Self

import duckdb
import pyarrow as pa

from headrace.arrow.read.columns import HEADERS
from headrace.arrow.read.open_topic import Isolation
from headrace.arrow.sql.bounded_duckdb import MEMORY, BoundedDuckDb
from headrace.arrow.sql.sql_answer import Answer, one_line
from headrace.arrow.sql.sql_columns import Inferred, expression, infer, quoted, text
from headrace.arrow.sql.topic_dataset import COLUMNS, TopicDataset, is_text
from headrace.arrow.sql.topic_source import OpenTopic, TopicSource, bound_line
from headrace.arrow.typed.typed_rows import TypedValues
from headrace.model.errors import HeadraceError

SAMPLE_RECORDS = 1000
"""Records of a topic that are sampled to infer the columns of JSON values."""
SAMPLE_PARTITIONS_MAX = 16
"""Maximum partitions that the sample is taken from."""
ANY_TOPIC = ""
"""Key of the topics that have no entry of their own."""
_MISSING = re.compile(r"Table with name (\S+) does not exist")
_SHOW_TABLES = re.compile(r"\s*show\s+(all\s+)?tables\s*;?\s*", re.IGNORECASE)
_OF_BYTES = ("key", "value", HEADERS)
_SAMPLED = (*_OF_BYTES, "partition", "offset")


class SqlError(HeadraceError):
    """A query failed; the text is one line."""


class UnknownTable(SqlError):
    """A query names a table that is not a topic."""

    def __init__(self, name: str, topics: list[str]) -> None:
        super().__init__(f"there is no topic {name}")
        self.name = name
        self.topics = topics


class TopicSql:
    """An SQL session: a topic becomes a table when a query names it, with a fixed end from then
    on."""

    def __init__(
        self,
        source: TopicSource,
        *,
        isolation: Isolation = "read_committed",
        sample: int = SAMPLE_RECORDS,
        memory: str = MEMORY,
        binary: bool = False,
        typed: Mapping[str, TypedValues] | None = None,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        """Start DuckDB; topics are opened by queries.

        `binary`: key, value and headers stay bytes even if they are UTF-8. `typed`: how values are
        decoded, by topic, in place of columns that are inferred; ANY_TOPIC: of the others. `tell`
        is called with a line about how far each topic is read. SqlError for an invalid `memory`.
        """
        self._source = source
        self._isolation: Isolation = isolation
        self._sample = sample
        self._binary = binary
        self._typed = typed or {}
        self._tell = tell
        self._datasets: dict[str, TopicDataset] = {}
        self._known: dict[str, str] | None = None
        try:
            self._bounded = BoundedDuckDb(memory)
        except duckdb.Error as error:
            raise SqlError(one_line(error)) from None
        self._duckdb = self._bounded.connection

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close DuckDB and delete its temporary files."""
        self._datasets.clear()
        self._bounded.close()

    def answer(self, query: str) -> Answer:
        """Start a query; rows are computed as the answer is read.

        Raises SqlError, ApiError or ClientError.
        """
        try:
            statements = self._duckdb.extract_statements(query)
            if len(statements) != 1:
                raise SqlError(f"one statement at a time: there are {len(statements)}")
            relation = self._bound(self._tables() if _SHOW_TABLES.fullmatch(query) else query)
        except duckdb.Error as error:
            raise self._error(error, query) from None
        return Answer(relation, lambda error: self._error(error, query))

    def _tables(self) -> str:
        """Return a query that lists the topics: DuckDB itself knows only those named by queries so
        far."""
        names = ", ".join(f"({text(name)})" for name in sorted(self._topics().values()))
        rows = names or "(NULL)"
        return f"SELECT name FROM (VALUES {rows}) AS t(name) WHERE name IS NOT NULL"  # noqa: S608 - names are quoted

    def _bound(self, query: str) -> Any:  # noqa: ANN401 - duckdb has no types
        """Return the query's relation, adding each missing table that is a topic.

        DuckDB's own list of a query's tables fails for joins by columns that it does not know yet.
        """
        while True:
            try:
                return self._duckdb.sql(query)
            except duckdb.CatalogException as error:
                topic = self._topics().get(_missing_table(error).lower())
                if topic is None or topic in self._datasets:
                    raise
                self._add(topic)

    def _topics(self) -> dict[str, str]:
        """Return the topics by their lower-case name, as SQL names are case-insensitive."""
        if self._known is None:
            self._known = {topic.lower(): topic for topic in self._source.names()}
        return self._known

    def _add(self, topic: str) -> None:
        opened = self._source.open(topic, self._isolation)
        self._tell(bound_line(opened))
        sample = self._sampled(opened)
        as_text = frozenset(
            name for name in _OF_BYTES
            if not self._binary and all(is_text(batch.column(name), name) for batch in sample)
        )  # fmt: skip
        typed = self._typed.get(topic, self._typed.get(ANY_TOPIC))
        if typed is not None:
            _check_names(topic, typed)
        dataset = self._datasets[topic] = TopicDataset(opened, as_text=as_text, typed=typed)
        if typed is not None:
            self._duckdb.register(topic, dataset)
            return
        values = [value for batch in sample for value in batch.column("value").to_pylist()]
        inferred = Inferred({}, []) if self._binary else infer(values, COLUMNS)
        if inferred.types and inferred.others:
            self._tell(_others_line(topic, inferred, sample))
        if inferred.left_out:
            self._tell(
                f"{topic}: no column for {', '.join(inferred.left_out)}: take it as value->>'NAME'"
            )
        hidden = f"records of {topic}"
        self._duckdb.register(hidden, dataset)
        fields = ", ".join(
            f"{expression(topic, name, type_, 'object')} AS {quoted(name)}"
            for name, type_ in inferred.types.items()
        )
        own = ", ".join(map(quoted, COLUMNS))
        value = "value" if "value" in as_text else "TRY(decode(value))"
        self._duckdb.execute(
            f"CREATE VIEW {quoted(topic)} AS SELECT {own}{', ' if fields else ''}{fields} FROM"  # noqa: S608 - names are quoted
            f" (SELECT *, CASE WHEN json_valid({value}) THEN {value}::JSON END AS object"
            f" FROM {quoted(hidden)})"
            if fields
            else f"CREATE VIEW {quoted(topic)} AS SELECT {own} FROM {quoted(hidden)}"  # noqa: S608
        )

    def _sampled(self, opened: OpenTopic) -> list[pa.RecordBatch]:
        """Return the first records of a few partitions."""
        filled = {number: span for number, span in opened.ranges.items() if span[0] < span[1]}
        chosen = sorted(filled)[:SAMPLE_PARTITIONS_MAX]
        batches = []
        for number in chosen:
            left = -(-self._sample // len(chosen))
            rows = opened.read(_SAMPLED, {number: filled[number]})
            while left > 0 and (batch := next(rows, None)) is not None:
                batches.append(batch.slice(0, left))
                left -= batch.num_rows
        return batches

    def _error(self, error: duckdb.Error, query: str) -> BaseException:
        """Return the exception for a DuckDB error: the reader's own if reading a topic failed."""
        for dataset in self._datasets.values():
            if dataset.failure is not None:
                return dataset.failure
        if isinstance(error, duckdb.InterruptException):
            return KeyboardInterrupt()
        line = one_line(error)
        for name, topic in self._topics().items():
            plain = name.replace("_", "a").isalnum() and not name[0].isdigit()
            if not plain and topic not in self._datasets and name in query.lower():
                return SqlError(f'{line}; write the topic in double quotes: "{topic}"')
        missing = _missing_table(error)
        if missing:
            return UnknownTable(missing, sorted(self._topics().values()))
        return SqlError(line)


def _others_line(topic: str, inferred: Inferred, sample: list[pa.RecordBatch]) -> str:
    """Return a note about values that are not JSON objects: their number and the first one's
    place."""
    at, count = inferred.others[0], len(inferred.others)
    for batch in sample:
        if at < batch.num_rows:
            break
        at -= batch.num_rows
    place = f"{topic}-{batch.column('partition')[at]}@{batch.column('offset')[at]}"
    return (
        f"{topic}: {count:,} of {inferred.looked_at:,} values looked at"
        f" {'is not a JSON object' if count == 1 else 'are not JSON objects'} and null in these"
        f" columns; the first is {place}"
    )


def _check_names(topic: str, typed: TypedValues) -> None:
    """Raise SqlError if a field has the name of a column of the record, as SQL compares names."""
    for name in typed.schema(()).names:
        if name.lower() in COLUMNS:
            raise SqlError(
                f"{topic}: the field {name} of the schema is also a column of the record: leave it"
                f" out of the schema and take it as value->>'{name}'"
            )


def _missing_table(error: duckdb.Error) -> str:
    """Return the name of the table that DuckDB does not find; empty for other errors."""
    found = _MISSING.search(str(error))
    return "" if found is None else found[1].strip('"')
