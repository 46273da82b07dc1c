"""A broker inside the test's own process, with real sockets and files and no child process.

    with BrokerThread() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap})

Under pytest no code is needed: an installed Headrace provides the fixtures `headrace_broker` and
`kafka_bootstrap_servers` and the mark `headrace_topics` (see `headrace.testing.plugin`).
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.testing.broker import BrokerThread
    from headrace.testing.records import StoredRecord

__all__ = ["BrokerThread", "StoredRecord"]


def __getattr__(name: str) -> object:
    # pytest loads the plugin of this package in every run, which must not import the broker.
    if name == "BrokerThread":
        from headrace.testing.broker import BrokerThread

        return BrokerThread
    if name == "StoredRecord":
        from headrace.testing.records import StoredRecord

        return StoredRecord
    raise AttributeError(name)
