"""Stock clients on a SASL_PLAINTEXT listener: they produce and consume by each mechanism.

Over TLS they are played by `tests.outside.kafka_tools.secured_clients`.

With a wrong password they raise their own error for that, and no secret is seen anywhere.
"""

import gc
import logging
import re
from collections.abc import Iterator

import pytest

from headrace.testing.broker import BrokerThread
from tests.outside.clients.secured import STORIES, VALUES, Security
from tests.support.security.sasl_kit import PASSWORD, USER, add_scram_users, guarded

pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"  # sockets that clients leave open that fail
)
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
PLANTED = "planted-secret-4711"


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """Have what clients leave open that fail collected here, where it is expected."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with guarded(auto_create_topics_enable="true") as running:
        add_scram_users(running)
        yield running


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("client", STORIES)
def test_stock_clients_produce_and_consume(
    broker: BrokerThread, client: str, mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "headrace")
    topic = f"{client}-{mechanism.lower()}"
    assert STORIES[client](broker.bootstrap, Security(mechanism), topic) == [*VALUES, b"4"]
    assert PASSWORD not in caplog.text


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
@pytest.mark.parametrize("client", STORIES)
def test_with_a_wrong_password_stock_clients_say_so(
    broker: BrokerThread, client: str, mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "headrace")
    with pytest.raises(Exception) as raised:  # noqa: PT011 - each client has its own
        STORIES[client](broker.bootstrap, Security(mechanism, password=PLANTED), "refused")
    # kafka-python and aiokafka raise that they reach nobody, and log why.
    of_client = [
        record.getMessage() for record in caplog.records if not record.name.startswith("headrace")
    ]
    told = f"{type(raised.value).__name__} {raised.value} {' '.join(of_client)}"
    assert re.search("authentication.*failed", told, re.IGNORECASE)
    said = [line for line in caplog.messages if f"authentication by {mechanism} failed" in line]
    assert said
    assert all(line.endswith(f"wrong password: '{USER}'") for line in said)
    assert PLANTED not in "".join(
        record.getMessage() for record in caplog.records if record.name.startswith("headrace")
    )
