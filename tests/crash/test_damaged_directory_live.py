"""A real broker's log directory with a file or directory missing, flipped or called otherwise.

`test_damaged_directory` tries them by the hundred on a simulated disk; here the whole broker
starts, its metadata store included, and a stock client looks. `make crash` tries every case after
a stop and after a kill; without it each is tried once, after one of the two.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep

import pytest

from headrace.log import file_names
from headrace.log.directory import unchanged_logs
from headrace.log.directory.state_files import durable_read_bounds
from headrace.log.file_names import METADATA as STORE
from headrace.log.recovery import gaps
from tests.crash.test_damaged_files import RECORDS, fill, read, value_at
from tests.support.processes.process import BrokerProcess

NO_SOCKETS = shutil.ignore_patterns(file_names.ADMIN_SOCKET)
"""A killed broker's is left, and cannot be copied."""
TOPICS = ["one", "two"]
Damage = Callable[[Path], None]
pytestmark = pytest.mark.filterwarnings("default")


def missing(name: str) -> Damage:
    def damage(log: Path) -> None:
        path = log / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()

    return damage


def flipped(name: str, marked: bytes) -> Damage:
    """A bit of the byte behind `marked`."""

    def damage(log: Path) -> None:
        path = log / name
        content = bytearray(path.read_bytes())
        at = content.index(marked) + len(marked)
        content[at] ^= 0x02
        path.write_bytes(content)

    return damage


def called(name: str, other: str) -> Damage:
    def damage(log: Path) -> None:
        (log / name).rename(log / other)

    return damage


CASES: dict[str, Damage] = {
    "partition missing": missing("one-0"),
    "settings flipped": flipped(STORE, b'"retention.ms":"'),
    "store missing": missing(STORE),
    "partition called otherwise": called("one-0", "one-8"),
    "segment called otherwise": lambda log: called(
        f"one-0/{sorted((log / 'one-0').glob('*.log'))[1].name}", "one-0/00000000000000000003.log"
    )(log),
    "identity missing": missing(file_names.META_PROPERTIES),
    "identity flipped": flipped(file_names.META_PROPERTIES, b"cluster.id="),
    "recovery points missing": missing(file_names.RECOVERY_POINTS),
    "recovery points flipped": flipped(file_names.RECOVERY_POINTS, b"one 0 "),
    "high watermarks missing": missing(file_names.HIGH_WATERMARKS),
    "high watermarks flipped": flipped(file_names.HIGH_WATERMARKS, b"one 0 "),
    "boot id missing": missing(file_names.BOOT_ID),
    "logs at rest missing": missing(unchanged_logs.FILE_NAME),
    "logs at rest flipped": flipped(unchanged_logs.FILE_NAME, b'"one",0,'),
    "read bounds missing": missing(durable_read_bounds.NAME),
    "gaps missing": missing(gaps.FILE_NAME),
    "marker missing": missing(file_names.CLEAN_SHUTDOWN),
    "lock missing": missing(file_names.LOCK),
}
NOT_THERE: dict[str, set[str]] = {
    "stopped": {"read bounds missing"},
    "killed": {
        "settings flipped",
        "marker missing",
        "logs at rest missing",
        "logs at rest flipped",
    },
}
"""What a directory so left does not have."""
LEFT = [(how, name) for how in NOT_THERE for name in CASES if name not in NOT_THERE[how]]


def tried() -> list[tuple[str, str]]:
    """All of `LEFT`, or of each case the first there is, every other one after a kill."""
    if os.environ.get("HEADRACE_LONG"):
        return LEFT
    first: dict[str, tuple[str, str]] = {}
    for at, name in enumerate(CASES):
        ways = [one for one in LEFT if one[1] == name]
        first[name] = ways[at % len(ways)]
    return sorted(first.values(), reverse=True)


def wait_for_checkpoints(log: Path) -> None:
    """Wait until the checkpoints tell of the records: they are written every 200 ms."""
    deadline = monotonic() + 30
    for name in (file_names.RECOVERY_POINTS, file_names.HIGH_WATERMARKS):
        path = log / name
        while not (path.exists() and b"one 0 " in path.read_bytes()):
            assert monotonic() < deadline, f"{name} was not written"
            sleep(0.05)


@pytest.fixture(scope="module")
def left(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log directory that a broker left."""
    place = tmp_path_factory.mktemp("left")
    broker = BrokerProcess(place, replica_high_watermark_checkpoint_interval_ms=200)
    broker.start()
    try:
        fill(broker, TOPICS)
        if request.param == "stopped":
            assert broker.stop() == 0
        else:
            wait_for_checkpoints(place / "log")
    finally:
        broker.kill()
    return place / "log"


@pytest.mark.parametrize(
    ("left", "how"), [(how, how) for how in NOT_THERE], indirect=["left"], ids=list(NOT_THERE)
)
def test_what_is_not_there_to_be_damaged_is_what_is_said(
    left: Path, tmp_path: Path, how: str
) -> None:
    absent = set()
    for name, damage in CASES.items():
        copy = tmp_path / name
        shutil.copytree(left, copy, ignore=NO_SOCKETS)
        try:
            damage(copy)
        except (FileNotFoundError, ValueError):
            absent.add(name)
    assert absent == NOT_THERE[how]


@pytest.mark.parametrize(("left", "name"), tried(), indirect=["left"])
def test_nothing_is_lost_in_silence(left: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(left, tmp_path / "log", ignore=NO_SOCKETS)
    CASES[name](tmp_path / "log")
    broker = BrokerProcess(tmp_path)
    try:
        try:
            broker.start()
        except AssertionError:
            assert "Traceback" not in broker.output, broker.output[-2000:]
            assert str(tmp_path / "log") in broker.output, "refused without a reason"
            return
        for topic in TOPICS:
            found = read(broker, topic, 0, patience=8)
            assert found == {offset: value_at(topic, offset) for offset in found}
            assert sorted(found) == list(range(len(found)))
            assert len(found) == RECORDS or f"/{topic}-0" in broker.output, topic
        if name.startswith("store"):
            assert "their settings are lost" in broker.output
    finally:
        broker.kill()
