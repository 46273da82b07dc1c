"""A standalone Spark cluster on the loopback: a master and workers, each a process of its own.

Each worker has an address of its own, 127.0.0.1 and on: Spark begins no second, speculative attempt
on the host of the first.
"""

import os
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark

from headrace.spark.sessions.java import find_java
from tests.support.processes.process import free_port, wait_or_kill

START_SECONDS_MAX = 180
END_SECONDS_MAX = 30
_DEPLOY = "org.apache.spark.deploy"


class StandaloneCluster:
    """Runs within a `with`; what its processes say is in files of `directory`."""

    def __init__(self, directory: Path, workers: int = 2) -> None:
        self._directory = directory
        self._workers = workers
        self._processes: list[subprocess.Popen[bytes]] = []
        self._port = free_port()

    @property
    def master(self) -> str:
        return f"spark://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        try:
            self._start("master.Master", "--port", str(self._port))
            for number in range(self._workers):
                place = str(self._directory / f"worker-{number}")
                options = ["--cores", "1", "--memory", "1g", "--work-dir", place, self.master]
                self._start("worker.Worker", *options, host=f"127.0.0.{1 + number}")
            self._wait_for_workers()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            wait_or_kill(process, END_SECONDS_MAX)

    def said(self) -> str:
        """Everything that was logged."""
        logs = sorted(self._directory.glob("*.log"))
        return "\n".join(log.read_text(errors="replace") for log in logs)

    def _start(self, name: str, *arguments: str, host: str = "127.0.0.1") -> None:
        home = Path(pyspark.__file__).parent
        environment = os.environ | {
            "JAVA_HOME": str(find_java().home),
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": host,
            "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
            "SPARK_DAEMON_MEMORY": "256m",
            "PYSPARK_PYTHON": sys.executable,
        }
        command = [str(home / "bin" / "spark-class"), f"{_DEPLOY}.{name}"]
        command += ["--host", host, "--webui-port", "0", *arguments]
        log = self._directory / f"{name}-{len(self._processes)}.log"
        with log.open("wb") as said:
            self._processes.append(
                subprocess.Popen(command, env=environment, stdout=said, stderr=said)
            )

    def _wait_for_workers(self) -> None:
        deadline = time.monotonic() + START_SECONDS_MAX
        while self.said().count("Successfully registered with master") < self._workers:
            ended = [process for process in self._processes if process.poll() is not None]
            assert not ended, self.said()[-3000:]
            assert time.monotonic() < deadline, self.said()[-3000:]
            time.sleep(0.2)
