"""One broker and one Spark session for all of these tests: both take seconds to start.

`HEADRACE_TEST_BOOTSTRAP` points them at another broker, a real Kafka say.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

import headrace.spark
from tests.spark.kit import Topics
from tests.spark.long import QUICK_JAVA
from tests.support.processes.process import BrokerProcess


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    given = os.environ.get("HEADRACE_TEST_BOOTSTRAP")
    if given:
        yield given
        return
    directory = tmp_path_factory.mktemp("broker")
    with BrokerProcess(directory, log_retention_check_interval_ms=300) as broker:
        yield broker.bootstrap


@pytest.fixture(scope="session")
def event_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Spark notes all that its UI shows."""
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="session")
def spark(event_log: Path) -> Iterator[SparkSession]:
    settings = {
        "spark.master": "local[2]",
        "spark.eventLog.enabled": True,
        "spark.eventLog.dir": event_log.as_uri(),
        "spark.eventLog.compress": False,
    }
    with patch.dict(os.environ, QUICK_JAVA):
        session = headrace.spark.session("tests", **settings)
    yield session
    session.stop()


@pytest.fixture
def topics(bootstrap: str) -> Iterator[Topics]:
    made = Topics(bootstrap)
    yield made
    made.close()
