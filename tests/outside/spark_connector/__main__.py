"""Spark's own Kafka connector against our broker: batch, stream, sink; a verdict for each.

    python -m tests.outside.spark_connector

The Spark is the one that the connector's jars are for, in an environment made at first use (see
`bench/spark_peer.py`); jars come by Maven. Exits with 1 where a case fails.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.spark_peer import CONNECTOR, ROOT
from tests.support.processes.process import BrokerProcess

SECONDS_MAX = 500


def main() -> int:
    """Print a verdict for each case; return the command's exit code."""
    jars, python = CONNECTOR.jars(), CONNECTOR.python()
    print(f"spark {CONNECTOR.pyspark}: {', '.join(jar.name for jar in jars)}")
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        with BrokerProcess(directory / "broker") as broker:
            verdicts = _cases(broker.bootstrap, directory, jars, python)
    for case, verdict in verdicts.items():
        print(f"ok      {case}" if verdict == "ok" else f"FAILED  {case}: {verdict}")
    return 0 if verdicts and set(verdicts.values()) == {"ok"} else 1


def _cases(bootstrap: str, directory: Path, jars: list[Path], python: Path) -> dict[str, str]:
    script = Path(__file__).with_name("cases.py")
    environment = os.environ | {"PYSPARK_PYTHON": str(python), "PYTHONPATH": str(ROOT / "src")}
    environment.pop("SPARK_HOME", None)
    done = subprocess.run(
        [str(python), str(script), bootstrap, str(directory), ",".join(map(str, jars))],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS_MAX,
    )
    if done.returncode:
        return {"session": done.stderr[-3000:]}
    verdicts: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return verdicts


if __name__ == "__main__":
    sys.exit(main())
