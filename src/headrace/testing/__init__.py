"""A real broker inside a test's own process: real sockets, real files, no child process.

    with BrokerThread() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap})

Under pytest nothing needs to be written for that: the fixtures `headrace_broker` and
`kafka_bootstrap_servers` and the mark `headrace_topics` are there once Headrace is installed (see
`headrace.testing.plugin`).
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.testing.broker import BrokerThread
    from headrace.testing.records import StoredRecord

__all__ = ["BrokerThread", "StoredRecord"]


def __getattr__(name: str) -> object:
    # pytest loads the plugin beside this in every run: it must not import a broker with it.
    if name == "BrokerThread":
        from headrace.testing.broker import BrokerThread

        return BrokerThread
    if name == "StoredRecord":
        from headrace.testing.records import StoredRecord

        return StoredRecord
    raise AttributeError(name)
