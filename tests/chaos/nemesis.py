"""What is done to a cluster: each fault as a context.

Entered, a fault has lasted its bounded time and names what it hit; left, it is taken back. It
begins on a whole cluster. That it becomes whole again is waited for by who runs faults.
"""

import os
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from tests.chaos.cluster import SMALL_DISK, Ground
from tests.chaos.namespaces import CLIENTS
from tests.support.processes.process import HEADRACE

FAULT_SECONDS = 15.0
"""More than twice a session: what is cut off is given up, and others lead."""
OUTAGE_SECONDS = 3.0
ROOT = Path(__file__).parents[2]


class Nemesis(NamedTuple):
    """A fault; during one that leaves a majority clients get on."""

    name: str
    fault: Callable[[Ground], AbstractContextManager[str]]
    leaves_majority: bool = True


@contextmanager
def _killed(ground: Ground, number: int) -> Iterator[str]:
    broker = ground.brokers.brokers[number]
    broker.kill()
    ground.hold(FAULT_SECONDS)
    yield f"broker {number}"
    broker.start()


def kill_broker(ground: Ground) -> AbstractContextManager[str]:
    return _killed(ground, ground.draw_broker())


def kill_controller(ground: Ground) -> AbstractContextManager[str]:
    return _killed(ground, ground.controller())


@contextmanager
def kill_all_brokers(ground: Ground) -> Iterator[str]:
    ground.brokers.kill()
    ground.hold(OUTAGE_SECONDS)
    yield "all brokers"
    for broker in ground.brokers.brokers:
        broker.start()


@contextmanager
def pause_broker(ground: Ground) -> Iterator[str]:
    number = ground.draw_broker()
    ground.brokers.pause(number)
    try:
        ground.hold(FAULT_SECONDS)
        yield f"broker {number}"
    finally:
        ground.brokers.resume(number)


@contextmanager
def _cut(ground: Ground, number: int, addresses: list[str]) -> Iterator[str]:
    for address in addresses:
        ground.network.cut(ground.address(number), address)
    ground.hold(FAULT_SECONDS)
    yield f"broker {number}"
    ground.network.heal()


def cut_from_peers(ground: Ground) -> AbstractContextManager[str]:
    # Without its controller nobody's ISR changes, as in Kafka 3.9: that case is another one.
    number = ground.draw_broker(but=ground.controller())
    return _cut(ground, number, ground.peers(number))


def cut_controller_from_peers(ground: Ground) -> AbstractContextManager[str]:
    number = ground.controller()
    return _cut(ground, number, ground.peers(number))


def cut_from_zookeeper(ground: Ground) -> AbstractContextManager[str]:
    return _cut(ground, ground.draw_broker(), ground.ensemble())


def cut_from_clients(ground: Ground) -> AbstractContextManager[str]:
    return _cut(ground, ground.draw_broker(), [CLIENTS])


def cut_off(ground: Ground) -> AbstractContextManager[str]:
    number = ground.draw_broker()
    return _cut(ground, number, [*ground.peers(number), *ground.ensemble(), CLIENTS])


@contextmanager
def cut_one_way(ground: Ground) -> Iterator[str]:
    """What a broker sends to the others is lost; what they send arrives."""
    number = ground.draw_broker(but=ground.controller())
    for address in ground.peers(number):
        ground.network.cut_way(ground.address(number), address)
    ground.hold(FAULT_SECONDS)
    yield f"broker {number}"
    ground.network.heal()


@contextmanager
def slow_link(ground: Ground) -> Iterator[str]:
    number = ground.draw_broker()
    ground.network.slow(f"broker-{number}")
    ground.hold(FAULT_SECONDS)
    yield f"broker {number}"
    ground.network.heal()


@contextmanager
def full_disk(ground: Ground) -> Iterator[str]:
    """One of two log directories has no space left; an operator makes some, and restarts."""
    ground.disk.fill()
    try:
        ground.hold(FAULT_SECONDS)
        yield f"broker {SMALL_DISK}"
    finally:
        ground.disk.empty()
    ground.brokers.brokers[SMALL_DISK].kill()
    ground.brokers.brokers[SMALL_DISK].start()


@contextmanager
def restart_all(ground: Ground) -> Iterator[str]:
    ground.roll()
    yield "one broker after the other"


@contextmanager
def upgrade(ground: Ground) -> Iterator[str]:
    """Go back to the commit before this one and on to this one again, broker by broker."""
    with tarfile.open(fileobj=BytesIO(_source_before())) as archive:
        archive.extractall(ground.directory / "before", filter="data")
    for broker in ground.brokers.brokers:
        broker.environment = os.environ | {"PYTHONPATH": str(ground.directory / "before" / "src")}
    ground.roll()
    for broker in ground.brokers.brokers:
        broker.environment = dict(os.environ)
    ground.roll()
    yield "HEAD~1 and back"


def _source_before() -> bytes:
    command = ["git", "archive", "HEAD~1", "src"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout


@contextmanager
def reassign(ground: Ground) -> Iterator[str]:
    """Take every partition of the load from its leader, give it back to all, and again."""
    moved, until = 0, time.monotonic() + FAULT_SECONDS
    while not moved or time.monotonic() < until:
        moved += _take_and_give_back(ground)
    yield f"{moved} partitions"


def _take_and_give_back(ground: Ground) -> int:
    partitions = ground.loaded()
    fewer = {
        place: tuple(broker for broker in found.assigned if broker != found.leader)
        for place, found in partitions.items()
    }
    all_again = {
        place: (*fewer[place], *set(found.assigned).difference(fewer[place]))
        for place, found in partitions.items()
    }
    for wanted in (fewer, all_again):
        moves = [
            f"{topic}:{index}={','.join(map(str, brokers))}"
            for (topic, index), brokers in wanted.items()
        ]
        command = [str(HEADRACE), "cluster", "reassign", *moves, "-b", ground.brokers.bootstrap]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert not done.returncode, f"reassign: {done.stderr}"
        ground.until_assigned(wanted)
    return len(partitions)


@contextmanager
def kill_zookeeper(ground: Ground) -> Iterator[str]:
    server = ground.chance.choice([ground.zookeeper.leader(), *ground.zookeeper.servers])
    server.kill()
    ground.hold(FAULT_SECONDS)
    yield f"server {server.number}"
    server.start(ground.zookeeper.servers)
    server.wait()


@contextmanager
def zombie_copier(ground: Ground) -> Iterator[str]:
    """Kill one copier, and stop the other for longer than its group and transaction wait."""
    killed, paused = ground.chance.sample(ground.load.copiers, 2)
    killed.kill()
    paused.pause(FAULT_SECONDS)
    yield "both copiers"


NEMESES = [
    Nemesis("kill a broker", kill_broker),
    Nemesis("kill the controller", kill_controller),
    Nemesis("kill all brokers", kill_all_brokers, leaves_majority=False),
    Nemesis("pause a broker", pause_broker),
    Nemesis("cut from peers", cut_from_peers),
    Nemesis("cut controller from peers", cut_controller_from_peers, leaves_majority=False),
    Nemesis("cut from ZooKeeper", cut_from_zookeeper),
    Nemesis("cut from clients", cut_from_clients),
    Nemesis("cut off from all", cut_off),
    Nemesis("cut one way", cut_one_way),
    Nemesis("slow link", slow_link),
    Nemesis("full disk", full_disk),
    Nemesis("rolling restart", restart_all),
    Nemesis("upgrade", upgrade),
    Nemesis("reassignment", reassign),
    Nemesis("kill a ZooKeeper", kill_zookeeper),
    Nemesis("kill and pause copiers", zombie_copier),
]
