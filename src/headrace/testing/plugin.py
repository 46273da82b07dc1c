"""pytest's plugin: a real broker for tests, in their own process.

    @pytest.mark.headrace_topics("orders", partitions=3)
    def test_orders_are_billed(kafka_bootstrap_servers):
        producer = Producer({"bootstrap.servers": kafka_bootstrap_servers})
        ...

* `headrace_broker`: a running `BrokerThread`, its data in memory where /dev/shm has room, else in a
  temporary directory. A new one for each test; `headrace_broker_scope = module` (or class, package,
  session) in pytest's configuration keeps one longer.
* `kafka_bootstrap_servers`: its address, as clients take it.
* `headrace_clients`: what clients take to come to it: `.librdkafka`, `.java`, `.kafka_python`,
  `.aiokafka`, `.spark`, whatever the broker asks of them.
* `headrace_security`: override it to return SASL_SSL, SSL or SASL_PLAINTEXT: the broker then asks
  who connects, by certificates and a password of its own.
* `headrace_settings`: override it to return the broker's settings, by Kafka's names.
* `@pytest.mark.headrace_topics(*names, partitions=1, config={…})`: topics that are there, empty,
  when the test begins, whatever the scope. The mark can be given several times.

When a test fails, its report has a section with the newest records of its topics. A client that the
test leaves open loses its broker: it is not waited for.

Nothing of the broker is imported before a test asks for it.
"""

from collections.abc import Generator, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from headrace.testing.broker import BrokerThread
    from headrace.testing.guard import ClientSettings

MARK = "headrace_topics"
SCOPE = "headrace_broker_scope"
SCOPES = ("function", "class", "module", "package", "session")
SECTION = "Records in the topics of Headrace"

_USED: "pytest.StashKey[BrokerThread]" = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare `headrace_broker_scope`."""
    parser.addini(SCOPE, f"how long a headrace_broker is kept: {', '.join(SCOPES)}", default="")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark."""
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
    """Return the settings of the broker, by Kafka's names; for test suites to override."""
    return {}


@pytest.fixture(scope="session")
def headrace_security() -> str | None:
    """Return what the broker asks of who connects, None: nothing; for test suites to override."""
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
    """Return what clients take as bootstrap.servers."""
    return headrace_broker.bootstrap


@pytest.fixture(scope=_scope)
def headrace_clients(headrace_broker: "BrokerThread") -> "ClientSettings":
    """Return what clients of each kind take to come to the broker."""
    return headrace_broker.clients


@pytest.fixture(autouse=True)
def _headrace_topics(request: pytest.FixtureRequest) -> Iterator[None]:
    """Make the topics that the test is marked with, and show what is in them if it fails."""
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
        broker.delete_topics(*mark.args)  # another test's, where the broker is kept longer
        broker.create_topics(*mark.args, **mark.kwargs)
        made += mark.args
    yield
    if request.config.getini(SCOPE) not in {"", "function"}:
        broker.delete_topics(*made)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: "pytest.CallInfo[None]"
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what lies in the topics when a test that used a broker has failed."""
    report = yield
    broker = item.stash.get(_USED, None)
    if broker is not None and report.failed and call.when != "teardown":
        from headrace.testing.records import shown

        # A broker that is what failed has nothing to show, and must not hide why.
        with suppress(Exception):
            topics = broker.topics()
            text = broker.call(lambda server: shown(server.broker, topics))
            report.sections.append((SECTION, text or "there are no topics"))
    return report
