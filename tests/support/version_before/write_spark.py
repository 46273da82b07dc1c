"""Write tests/golden/version-0.1/spark.tar.xz: checkpoints, decisions and tables.

Run it from this checkout with the Python of the version to be recorded:

    ../before/.venv/bin/python -m tests.support.version_before.write_spark
"""

from tests.support.version_before import spark_state
from tests.support.version_before.stored_broker import StoredBroker
from tests.support.version_before.write_broker import GOLDEN, pack, write_json

RECORDS = 900


def main() -> None:
    """Run the queries, stop, forget the last commits, pack."""
    GOLDEN.mkdir(parents=True, exist_ok=True)
    with spark_state.place() as place:
        with StoredBroker(place / "broker") as broker:
            spark_state.create(broker)
            spark_state.produce(broker, 0, RECORDS)
            spark_state.run(broker, place)
            found = spark_state.observe(broker, place)
            spark_state.holds_once(found, range(RECORDS))
        spark_state.forget_last_commits(place)
        (place / "broker" / "output.log").unlink()
        pack(place, GOLDEN / "spark.tar.xz")
    write_json(GOLDEN / "spark.expected.json.gz", found)


if __name__ == "__main__":
    main()
