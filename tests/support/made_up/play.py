"""Serve the made-up protocol in this process, and print what its clients and Kafka's are told.

The row is added before anything else of ours is imported, as if the table had it.
"""

# ruff: noqa: E402 - the row comes first
from headrace.model.protocols import ROWS
from tests.support.made_up.row import ROW

ROWS.append(ROW)

import json
import logging
import socket
import ssl
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from headrace.client.admin import topics
from headrace.client.admin.operations import call_operation
from headrace.client.client import Client
from headrace.client.sync import connect, run
from headrace.config.broker import load
from headrace.model.errors import ApiError, ConfigError
from headrace.security.audit import _logger as audit_log
from headrace.testing import BrokerThread
from tests.support.made_up.frontend import TOPIC
from tests.support.security.certificates import Authority

Facts = dict[str, Any]


def played(directory: Path) -> Facts:
    """Return what is told."""
    authority = Authority(directory)
    certificate = authority.sign()
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,ECHO://127.0.0.1:0,ECHOS://127.0.0.1:0",
        "listener.name.echos.ssl.keystore.location": str(certificate.both),
        "echo.greeting": "heard",
    }
    left = directory / "data" / "headrace-echo-00000007"
    left.parent.mkdir()
    left.write_bytes(b"of a process before")
    facts: Facts = {"config": configured()}
    told = Told()
    audit_log.addHandler(told)
    audit_log.setLevel(logging.INFO)
    with BrokerThread(settings, directory=str(left.parent)) as broker:
        _, plain, tls = broker.call(lambda server: [each.port for each in server.listeners])
        trusting = ssl.create_default_context(cafile=str(authority.certificate))
        facts["plain"] = said(plain, "hello")
        facts["tls"] = said(tls, "secret", trusting)
        facts["left"] = left.exists()
        with connect(broker.bootstrap) as client:
            facts["topics"] = topics_told(client)
            facts["operations"] = operations_told(client)
    facts["audit"] = told.lines
    return facts


def configured() -> Facts:
    """Return what a configuration makes of the protocol's listeners and settings."""
    facts: Facts = {}
    config, facts["warnings"] = load(
        flags={"listeners": "PLAINTEXT://127.0.0.1:9092,ECHO://127.0.0.1", "echo.greeting": "x"},
        environ={"HEADRACE_ECHO_GREETING": "y"},
    )
    facts["listeners"] = [str(listener) for listener in config.listeners]
    facts["greeting"] = config.values["echo.greeting"]
    for listeners in ("ECHO://0.0.0.0", "NOISE://127.0.0.1:1"):
        try:
            load(flags={"listeners": f"PLAINTEXT://127.0.0.1:9092,{listeners}"})
        except ConfigError as error:
            facts[listeners] = str(error)
    from tools.gen_config_docs import render

    facts["docs"] = [line for line in render().splitlines() if "echo" in line.lower()]
    from headrace.cli.command_tree import app

    facts["command"] = "echo" in list(app)
    from headrace.cli.broker.dev_listeners import LISTENERS

    facts["dev"] = [listener.flag for listener in LISTENERS]
    return facts


def said(port: int, line: str, tls: ssl.SSLContext | None = None) -> str:
    """Return the answer to a line."""
    with ExitStack() as stack:
        client = stack.enter_context(socket.create_connection(("127.0.0.1", port), 20))
        if tls is not None:
            client = stack.enter_context(tls.wrap_socket(client, server_hostname="127.0.0.1"))
        client.sendall(f"{line}\n".encode())
        return client.makefile().readline()


def topics_told(client: Client) -> Facts:
    """Return what Kafka's clients are told of the protocol's topics."""
    internal = run(client.metadata([TOPIC])).topics[TOPIC].internal
    return {
        "internal": internal,
        "create": refused(topics.create_topic(client, "__echo.more")),
        "partitions": refused(topics.create_partitions(client, TOPIC, 2)),
        "configs": refused(topics.alter_configs(client, 2, TOPIC, set_={"retention.ms": "1"})),
        "delete": refused(topics.delete_topic(client, TOPIC)),
    }


def operations_told(client: Client) -> Facts:
    """Return what an administrator is told."""
    return {
        "list": run(call_operation(client, "line.list", {})),
        "forget": run(call_operation(client, "line.forget", {"line": "hello"})),
        "wrong": refused(call_operation(client, "line.forget", {"line": 7})),
        "unknown": refused(call_operation(client, "line.shout", {})),
    }


def refused(work: Any) -> str | None:
    """Return the error of what is asked, None where it is done."""
    try:
        run(work)
    except ApiError as error:
        return f"{error.code.name}: {error.message}"
    return None


class Told(logging.Handler):
    """Keeps the lines of a logger."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        self.lines.append(record.getMessage())


if __name__ == "__main__":
    with suppress(BrokenPipeError):
        print(json.dumps(played(Path(sys.argv[1]))))
