"""The CDC example: the Delta table is the database's, whatever order changes arrive in."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from examples.cdc import accounts, changes
from tests.spark.kit import Topics

pytestmark = pytest.mark.slow


class Database:
    """A topic of changes, and the table that the example makes of it."""

    def __init__(self, spark: SparkSession, bootstrap: str, place: Path) -> None:
        self._spark = spark
        self._bootstrap = bootstrap
        self._place = place

    def changed(self, *changed: str) -> None:
        """Publish changes and bring the table up to date."""
        changes.publish(self._bootstrap, list(changed))
        query = accounts.start(self._spark, self._bootstrap, self._place, once=True)
        query.awaitTermination()

    def rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = (
            DeltaTable(str(self._place / "accounts"))
            .to_pyarrow_table()
            .select(["id", "name", "balance", "lsn"])
            .to_pylist()
        )
        return sorted(rows, key=lambda row: row["id"])

    def version(self) -> int:
        return DeltaTable(str(self._place / "accounts")).version()


@pytest.fixture
def database(
    spark: SparkSession, bootstrap: str, tmp_path: Path, topics: Topics
) -> Iterator[Database]:
    topics.create(1, changes.TOPIC)
    yield Database(spark, bootstrap, tmp_path)
    topics.delete(changes.TOPIC)


def row(number: int, name: str, balance: str, lsn: int) -> dict[str, Any]:
    return {"id": number, "name": name, "balance": Decimal(balance), "lsn": lsn}


def test_the_table_has_the_newest_row_of_each_key(database: Database) -> None:
    database.changed("r 100 1 ann 10.00", "c 101 2 bob 20.00", "u 102 1 ann 7.50")
    assert database.rows() == [row(1, "ann", "7.50", 102), row(2, "bob", "20.00", 101)]
    database.changed("u 103 2 rob 20.00")
    assert database.rows()[1] == row(2, "rob", "20.00", 103)


def test_a_deleted_row_is_gone_and_its_tombstone_changes_nothing(database: Database) -> None:
    database.changed("c 101 1 ann 10.00", "c 102 2 bob 20.00", "d 103 1")
    assert database.rows() == [row(2, "bob", "20.00", 102)]
    database.changed("d 104 2")
    assert database.rows() == []


def test_an_older_change_in_a_later_batch_is_not_applied(database: Database) -> None:
    database.changed("c 101 1 ann 10.00", "u 105 1 ann 7.50")
    database.changed("u 103 1 ann 9.00", "c 106 2 bob 20.00")
    assert database.rows() == [row(1, "ann", "7.50", 105), row(2, "bob", "20.00", 106)]


def test_an_older_change_does_not_bring_a_deleted_row_back(database: Database) -> None:
    database.changed("c 101 1 ann 10.00", "c 102 2 bob 20.00")
    database.changed("d 107 1")
    database.changed("u 103 1 ann 9.00", "u 104 2 rob 20.00")
    assert database.rows() == [row(2, "rob", "20.00", 104)]


def test_a_row_that_is_created_again_behind_its_deletion_is_there(database: Database) -> None:
    database.changed("c 101 1 ann 10.00", "d 102 1")
    database.changed("c 103 1 amy 1.00")
    assert database.rows() == [row(1, "amy", "1.00", 103)]


def test_older_changes_within_a_batch_are_not_applied(database: Database) -> None:
    database.changed("u 105 1 ann 7.50", "u 103 1 ann 9.00", "d 104 2", "u 101 2 bob 1.00")
    assert database.rows() == [row(1, "ann", "7.50", 105)]


@pytest.mark.parametrize("change", ["", "x 1 1", "c 1 1 ann", "d 1 1 ann 2.00", "c x 1 ann 2.00"])
def test_an_invalid_change_is_refused(change: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        changes.event_of(change)
