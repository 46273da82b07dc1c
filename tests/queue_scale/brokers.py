"""A broker for measurements of queues: its start until both listeners answer, and its memory."""

import re
import socket
import time
from pathlib import Path

from headrace.wire.amqp.frames import PROTOCOL_HEADER
from tests.support.processes.process import BrokerProcess, free_port

ANSWER_SECONDS_MAX = 120.0


class QueueBroker(BrokerProcess):
    """`headrace serve` with a listener for AMQP's clients."""

    def __init__(self, directory: Path) -> None:
        kafka, self.amqp_port = free_port(), free_port()
        listeners = f"PLAINTEXT://127.0.0.1:{kafka},AMQP://127.0.0.1:{self.amqp_port}"
        self.started_at = 0.0
        super().__init__(
            directory,
            kafka,
            listeners=listeners,
            amqp_guest="true",
            partitions_max=20_000,
        )

    def start(self) -> float:
        """Start and return the seconds from exec until AMQP's listener says its first word."""
        began = time.monotonic()
        super().start()
        while time.monotonic() < began + ANSWER_SECONDS_MAX:
            with socket.socket() as probe:
                if not probe.connect_ex(("127.0.0.1", self.amqp_port)):
                    probe.sendall(PROTOCOL_HEADER)
                    if probe.recv(1):
                        return time.monotonic() - began
            time.sleep(0.005)
        raise AssertionError(f"AMQP does not answer:\n{self.output[-4000:]}")

    def resident_bytes(self) -> int:
        """Return what its process has in memory, but for pages of files."""
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"^RssAnon:\s+(\d+) kB", status, re.MULTILINE)
        assert found is not None
        return int(found[1]) * 1024

    def cpu_seconds(self) -> float:
        """Return the processor's time it has taken so far."""
        assert self.process is not None
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100
