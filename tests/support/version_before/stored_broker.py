"""A broker with every kind of state in its directory; it can be another checkout's.

The modules of this folder import stock clients and Headrace's public names alone: they run with the
Python of either version.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.support.processes.process import HEADRACE, BrokerProcess, free_port

PASSWORDS = {"alice": "alice-secret", "bob": "bob-secret"}
"""Passwords of the users that the directory holds."""
INTERNAL_PARTITIONS = 3
COMMAND_SECONDS_MAX = 60
FOREVER = 50_000_000
"""Minutes that committed offsets are retained: the golden files grow old."""


class StoredBroker(BrokerProcess):
    """A broker on `directory`/log, with listeners of Kafka's protocol, AMQP and SASL."""

    def __init__(self, directory: Path, command: Path = HEADRACE, **settings: Any) -> None:
        port, self.amqp_port, self.sasl_port = free_port(), free_port(), free_port()
        listeners = (
            f"PLAINTEXT://127.0.0.1:{port},AMQP://127.0.0.1:{self.amqp_port},"
            f"SASL_PLAINTEXT://127.0.0.1:{self.sasl_port}"
        )
        given: dict[str, Any] = {
            "listeners": listeners,
            "amqp_guest": "true",
            "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super_users": "User:ANONYMOUS;User:guest",
            "auto_create_topics_enable": "false",
            "log_retention_ms": -1,
            "log_cleaner_backoff_ms": 200,
            "offsets_retention_minutes": FOREVER,
            "offsets_topic_num_partitions": INTERNAL_PARTITIONS,
            "transaction_state_log_num_partitions": INTERNAL_PARTITIONS,
            "share_coordinator_state_topic_num_partitions": INTERNAL_PARTITIONS,
            "transactional_id_expiration_ms": 2**31 - 1,
            "transaction_max_timeout_ms": 2**31 - 1,
        }
        super().__init__(directory, port, command, **{**given, **settings})

    @property
    def log(self) -> Path:
        """The log directory."""
        return self.directory / "log"

    def run(self, *words: str) -> str:
        """Run the broker's own command on it; return its standard output."""
        line = [str(self.command), *words, "-b", self.bootstrap]
        done = subprocess.run(line, capture_output=True, text=True, timeout=COMMAND_SECONDS_MAX)
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout

    def ask(self, *words: str) -> Any:
        """Run the command with --json; return its answer."""
        return json.loads(self.run(*words, "--json"))
