"""Kafka's administrative tools in one JVM per broker: one for each run takes ten times as long.

Their `main` is called as their scripts call it; what they print and exit with is theirs.
"""

import subprocess
import threading
from collections.abc import Sequence

from tests.outside.kafka_reads_our_files.jvm import KAFKA_4, java, libraries
from tests.outside.kafka_tools import programs

_SEPARATOR = "\x01"


class Tools:
    """A JVM that runs tools one after the other; begun anew where one does not end."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, words: Sequence[str], seconds_max: float) -> tuple[int, str, str] | None:
        """Status, standard output and error; None where it did not end in time."""
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        late = threading.Timer(seconds_max, process.kill)
        late.start()
        try:
            process.stdin.write(_SEPARATOR.join(words).encode() + b"\n")
            process.stdin.flush()
            head = process.stdout.readline().split()
            if len(head) != 3:
                self.close()
                return None
            out, err = (process.stdout.read(int(size)).decode() for size in head[1:])
            return int(head[0]), out, err
        finally:
            late.cancel()

    def close(self) -> None:
        """End the JVM."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def _running(self) -> "subprocess.Popen[bytes]":
        if self._process is None:
            classes = programs.java_classes()
            command = java(KAFKA_4, 256, "-cp", f"{classes}:{libraries(KAFKA_4)}", "Tools")
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        return self._process
