"""pytest plugin: a real broker for tests, in their own process.

    @pytest.mark.headrace_topics("orders", partitions=3)
    def test_orders_are_billed(kafka_bootstrap_servers):
        producer = Producer({"bootstrap.servers": kafka_bootstrap_servers})
        ...

* `headrace_broker`: a running `BrokerThread`, with its data in /dev/shm if there is room, else in a
  temporary directory. Each test has its own; `headrace_broker_scope = module` (or class, package,
  session) in pytest's configuration keeps one for longer.
* `kafka_bootstrap_servers`: its address for bootstrap.servers.
* `headrace_clients`: client settings to connect to it, security included: `.librdkafka`, `.java`,
  `.kafka_python`, `.aiokafka`, `.spark`.
* `headrace_security`: override it to return SASL_SSL, SSL or SASL_PLAINTEXT: the broker then
  authenticates clients, with certificates and a password of its own.
* `headrace_settings`: override it to return the broker's settings, by Kafka's names.
* `@pytest.mark.headrace_topics(*names, partitions=1, config={…})`: topics that exist and are empty
  when the test begins, in every scope. The mark can be given several times.

* `pipeline`: the Spark pipeline whose `pipeline.toml` is in a directory above the test, on records
  that the test gives: `pipeline.given("orders", [record, …], […])`. It needs no broker.

When a test fails, its report has a section with the newest records of its topics. The broker's stop
does not wait for clients that a test leaves open. No code of the broker is imported before a test
uses a fixture.
"""

from collections.abc import Generator, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from headrace.testing.broker import BrokerThread
    from headrace.testing.guard import ClientSettings
    from headrace.testing.pipeline import PipelineUnderTest

MARK = "headrace_topics"
SCOPE = "headrace_broker_scope"
SCOPES = ("function", "class", "module", "package", "session")
SECTION = "Records in the topics of Headrace"

_USED: "pytest.StashKey[BrokerThread]" = pytest.StashKey()
"""The broker that a test has used."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the ini option `headrace_broker_scope`."""
    parser.addini(SCOPE, f"how long a headrace_broker is kept: {', '.join(SCOPES)}", default="")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark `headrace_topics`."""
    config.addinivalue_line(
        "markers",
        f"{MARK}(*names, partitions=1, config=None): topics that are there, empty, when the test"
        " begins",
    )


def _scope(fixture_name: str, config: pytest.Config) -> Any:  # noqa: ANN401 - pytest's literal
    wanted = config.getini(SCOPE) or "function"
    if wanted not in SCOPES:
        raise pytest.UsageError(f"{SCOPE} = {wanted}: must be one of {', '.join(SCOPES)}")
    return wanted


@pytest.fixture(scope="session")
def headrace_settings() -> Mapping[str, str]:
    """Return the settings of the broker, by Kafka's names; override in tests."""
    return {}


@pytest.fixture(scope="session")
def headrace_security() -> str | None:
    """Return the security protocol of the broker's listener, None: PLAINTEXT; override in tests."""
    return None


@pytest.fixture(scope=_scope)
def headrace_broker(
    headrace_settings: Mapping[str, str], headrace_security: str | None
) -> "Iterator[BrokerThread]":
    """Yield a running broker: `bootstrap`, `create_topics`, `records` and more."""
    from headrace.testing.broker import BrokerThread

    with BrokerThread(headrace_settings, memory=True, security=headrace_security) as broker:
        yield broker


@pytest.fixture(scope=_scope)
def kafka_bootstrap_servers(headrace_broker: "BrokerThread") -> str:
    """Return the broker's address for bootstrap.servers."""
    return headrace_broker.bootstrap


@pytest.fixture(scope=_scope)
def headrace_clients(headrace_broker: "BrokerThread") -> "ClientSettings":
    """Return the client settings to connect to the broker, per client library."""
    return headrace_broker.clients


@pytest.fixture
def pipeline(request: pytest.FixtureRequest) -> "Iterator[PipelineUnderTest]":
    """Yield the pipeline of the project that the test belongs to; `given` gives it records."""
    from headrace.testing.pipeline import pipeline_of

    with pipeline_of(request.path) as found:
        yield found


@pytest.fixture(autouse=True)
def _headrace_topics(request: pytest.FixtureRequest) -> Iterator[None]:
    """Create the topics that the test is marked with, empty.

    Delete them after it in longer scopes.
    """
    marks = list(request.node.iter_markers(MARK))
    if not marks and "headrace_broker" not in request.fixturenames:
        yield
        return
    broker: BrokerThread = request.getfixturevalue("headrace_broker")
    request.node.stash[_USED] = broker
    made: list[str] = []
    for mark in marks:
        if not mark.args:
            raise pytest.UsageError(f"{MARK} needs the name of a topic at least")
        broker.delete_topics(*mark.args)  # left by another test in a longer scope
        broker.create_topics(*mark.args, **mark.kwargs)
        made += mark.args
    yield
    if request.config.getini(SCOPE) not in {"", "function"}:
        broker.delete_topics(*made)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: "pytest.CallInfo[None]"
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the newest records of all topics to the report of a failed test that used a broker."""
    report = yield
    broker = item.stash.get(_USED, None)
    if broker is not None and report.failed and call.when != "teardown":
        from headrace.testing.records import shown

        # A broker that has failed cannot be asked; its error must not replace the test's.
        with suppress(Exception):
            topics = broker.topics()
            text = broker.call(lambda server: shown(server.broker, topics))
            report.sections.append((SECTION, text or "there are no topics"))
    return report
