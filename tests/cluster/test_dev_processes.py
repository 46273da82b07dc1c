"""`headrace dev --processes`: a ZooKeeper from pyspark's jars, brokers that can be killed."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from headrace.client.sync import connect, run


def test_a_killed_broker_leaves_a_cluster_of_two_and_ctrl_c_ends_all(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "headrace.cli.main", "dev", "--processes", "3", "--port", "0"]
    started = subprocess.Popen(
        [*words, "--data", str(tmp_path)], stdout=subprocess.PIPE, text=True, bufsize=1
    )
    assert started.stdout is not None
    rows = [line.split() for line in (started.stdout.readline() for _ in range(5))][1:]
    pids = {name: int(pid) for name, _, pid in rows}
    assert list(pids) == ["1", "2", "3", "ZooKeeper"]
    try:
        with connect(rows[0][1], patient=True) as client:
            assert set(run(client.metadata([])).brokers) == {1, 2, 3}
            os.kill(pids["2"], signal.SIGKILL)
            deadline = time.monotonic() + 60
            while set(run(client.metadata([])).brokers) != {1, 3}:
                assert time.monotonic() < deadline
                time.sleep(0.2)
    finally:
        started.send_signal(signal.SIGINT)
        assert started.wait(60) == 0
        started.stdout.close()
    for pid in pids.values():
        assert not Path(f"/proc/{pid}/stat").exists() or re.search(
            r"\) Z", Path(f"/proc/{pid}/stat").read_text()
        )
