"""The cases on RocketMQ itself, whose servers run here: the recordings of the table.

FirstStart's cases are in the table from an earlier recording, with brokers of the same settings.
"""

import os
import time
from pathlib import Path

from tests.outside.rocketmq.first_start.programs import (
    EXPIRED,
    STARTS,
    Target,
    client,
    played,
)
from tests.outside.rocketmq.peer import RocketMQ
from tests.support.processes.network_namespace import NetworkNamespace
from tests.support.rocketmq.recorded_starts import Case

SETTINGS: dict[str, object] = {
    "mapedFileSizeCommitLog": 1 << 20,
    "mappedFileSizeCommitLog": 1 << 20,
    "mapedFileSizeConsumeQueue": 20_000,
    "mappedFileSizeConsumeQueue": 20_000,
    "deleteCommitLogFilesInterval": 100,
    "deleteConsumeQueueFilesInterval": 10,
    "destroyMapedFileIntervalForcibly": 1000,
    "cleanResourceInterval": 5000,
    "maxMessageSize": 65_536,
    # On a busy machine, too, it stores what it is sent.
    "waitTimeMillsInSendQueue": 10_000,
    "deleteWhen": ";".join(f"{hour:02}" for hour in range(24)),
}
"""Small files, of which old ones are deleted within seconds: by hours, as both versions do."""
FILES_LEFT = 3
DAYS_OLD = 5


def record(version: str, folder: Path) -> dict[Case, str]:
    """Play the cases on a version of RocketMQ, with its own client; return what happened."""
    place = folder / "servers"
    programs = folder / "programs"
    programs.mkdir()
    with_client = client(version, programs)
    with NetworkNamespace() as alone, RocketMQ(place, version, alone.host, **SETTINGS) as servers:
        target = Target(
            version,
            servers.address.names,
            f"127.0.0.1:{servers.address.broker}",
            lambda what: _expire(servers.store, what),
            alone.host.within,
        )
        found = played(with_client, target, tuple(p for p in STARTS if p.program != "FirstStart"))
        return found | played(with_client, target, (EXPIRED,))


def _expire(store: Path, what: str) -> None:
    assert what.startswith("expire "), what
    time.sleep(2)  # until all messages are in the files
    at = time.time() - DAYS_OLD * 86_400
    for file in sorted((store / "commitlog").iterdir())[:-FILES_LEFT]:
        os.utime(file, (at, at))
