"""At which level it is logged that the store could not be asked."""

import logging

import pytest

from headrace.cluster.settings.entity_settings import store_failed
from headrace.cluster.store.reaction import log_failure
from headrace.model.errors import ErrorCode
from headrace.ports.store import BadVersion, NoNode, SessionLost, StoreError


@pytest.mark.parametrize(
    ("error", "level"),
    [
        (SessionLost("the metadata store is closed"), logging.INFO),
        (BadVersion("/controller"), logging.INFO),
        (NoNode("/brokers"), logging.ERROR),
        (StoreError("too large"), logging.ERROR),
    ],
)
def test_an_outage_and_a_race_are_no_errors_of_the_store(
    error: StoreError, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    log_failure(logging.getLogger("x"), "what", error)
    assert store_failed(error).code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert [record.levelno for record in caplog.records] == [level] * 2
    assert str(error) in caplog.records[0].getMessage()
