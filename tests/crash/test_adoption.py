"""The power goes while a real Kafka's directory is taken up: it stays what Kafka wrote."""

import os
from copy import deepcopy

import pytest

from headrace.log import file_names
from headrace.log.directory.log_directory import read_identity
from headrace.model.nouns import TopicPartition
from headrace.record import batch as wire
from headrace.testing.disk import SimDisk
from headrace.testing.disk_crash import crash_states
from tests.golden.test_log_golden import CONFIG, archived
from tests.support.log.crash import COUNTS, Count, fingerprint
from tests.support.log.crash_check import stored_batches
from tests.support.log.log import World, append

ARCHIVE = "kafka-3.9.2-clean"
PATH = f"/{ARCHIVE}"
STEP = 1 if os.environ.get("HEADRACE_LONG") else 7
KEPT = ("g-compacted-0/", "g-trimmed-0/", "g-txn-0/", "g-open-0/")
APPENDED = b"ours, appended after the adoption"


def kafkas(*, clean: bool) -> SimDisk:
    """Some of its partitions, as if they had always been on the platter."""
    disk = SimDisk()
    for name, content in archived(ARCHIVE):
        inside = name.removeprefix(f"{ARCHIVE}/")
        if "/" in inside and not inside.startswith(KEPT):
            continue
        if not clean and inside == ".kafka_cleanshutdown":
            continue
        disk.make_directory(f"/{name}".rpartition("/")[0])
        file = disk.open(f"/{name}", create=True)
        file.write_at(0, (content,))
        file.close()
    listed = set(disk.list(PATH))
    for name in [one for one in listed if one.endswith("-offset-checkpoint")]:
        _keep_only_present(disk, f"{PATH}/{name}", listed)
    if not clean:
        # All of it is above them then, gaps of the compacted one included.
        disk.remove(f"{PATH}/{file_names.RECOVERY_POINTS}")
        disk.remove(f"{PATH}/{file_names.CLEANER_OFFSETS}")
    disk.ops.clear()
    disk.base = deepcopy(disk.nodes)
    return disk


def _keep_only_present(disk: SimDisk, path: str, there: set[str]) -> None:
    file = disk.open(path)
    rows = file.read(0, file.size()).decode().splitlines()[2:]
    rows = [row for row in rows if "-".join(row.split()[:2]) in there]
    text = "\n".join(["0", str(len(rows)), *rows, ""]).encode()
    file.truncate(0)
    file.write_at(0, (text,))
    file.close()


def taken_up(disk: SimDisk) -> World:
    found = read_identity(disk, PATH)
    assert found is not None
    return World(
        disk, config=CONFIG, path=PATH, broker_id=found.broker_id, cluster_id=found.cluster_id
    )


def held(world: World) -> dict[TopicPartition, list[bytes]]:
    return {
        place: [data for _, data in stored_batches(log)]
        for place, log in world.directory.logs.items()
    }


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_whatever_a_power_cut_leaves_of_an_adoption_is_kafkas_log_and_perhaps_more(
    clean: bool,
) -> None:
    disk = kafkas(clean=clean)
    world = taken_up(disk)
    assert not world.directory.quarantined
    before = held(world)
    assert len(before) == len(KEPT)
    assert sum(len(one) for one in before.values()) > 100
    world.directory.start()
    for place, log in sorted(world.directory.logs.items()):
        append(log, APPENDED, epoch=max(log.epochs.latest, 0) + 1)
        if place.partition == 0:
            world.flush(log)
    world.directory.checkpoint()
    world.settle()
    world.directory.close()
    cuts = states = 0
    seen: set[bytes] = set()
    for cut in range(0, len(disk.ops) + 1, STEP):
        cuts += 1
        for left in crash_states(disk, cut, seed=1, samples=1):
            states += 1
            if (key := fingerprint(left)) in seen:
                continue
            seen.add(key)
            after = taken_up(left)
            assert not after.directory.quarantined, cut
            found = held(after)
            assert found.keys() == before.keys()
            for place, batches in found.items():
                known = len(before[place])
                assert batches[:known] == before[place], (cut, place)
                for data in batches[known:]:
                    assert next(iter(wire.records(data))).value == APPENDED
            after.close()
    assert states > 30
    COUNTS[f"adoption of a Kafka's directory, {'stopped' if clean else 'killed'}"] = Count(
        cuts, states, len(seen)
    )
