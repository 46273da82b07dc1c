"""Declarations of the version before are taken over, and the power is cut at any step of that."""

import random
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from headrace.cluster.topics.creation import NewTopic
from headrace.log import file_names
from headrace.posix.store.embedded_store import EmbeddedStore
from headrace.queues.model.stored_model import (
    BindingRecord,
    ExchangeRecord,
    QueueRecord,
    Record,
    durable_records,
)
from headrace.queues.model.stored_records import encode_record, record_key
from headrace.queues.queue_names import DECLARATIONS_TOPIC, queue_topic
from headrace.testing.disk import SimDisk
from headrace.testing.disk_crash import crash_states
from headrace.vhosts.declarations import takeover
from headrace.vhosts.declarations.declaration_log import DeclarationLog
from tests.support.processes.broker import Room, created, play, room

AMQP: dict[str, Any] = {
    "listeners": "PLAINTEXT://127.0.0.1:9092,AMQP://127.0.0.1:5672",
    "amqp_guest": "true",
}
VHOSTS = ("/", "shop")
RECORDS: list[Record] = [
    ExchangeRecord("e", "topic", False, False, {}),
    *(QueueRecord(f"q{number}", False, {"x-max-length": number + 1}) for number in range(3)),
    *(BindingRecord("e", "queue", f"q{number}", "a.#", {}) for number in range(3)),
]
WANTED = {record_key(vhost, record) for vhost in VHOSTS for record in RECORDS}
CUTS = 12
"""Cuts between two steps of the takeover, and as many more at the steps."""


class Snapshot(NamedTuple):
    """The metadata store and the disk's operations at one moment."""

    store: Path
    ops: int


def written_before(place: Path) -> Callable[[], Any]:
    """Return a coroutine function that writes nodes as the version before did."""

    async def write() -> None:
        store = EmbeddedStore(str(place / file_names.METADATA))
        for vhost in VHOSTS:
            for record in RECORDS:
                path = f"{takeover.DECLARATIONS}/{record_key(vhost, record).hex()}"
                await store.create(path, encode_record(vhost, record), parents=True)
        await store.close()

    return write


def copied(place: Path, target: Path) -> Path:
    """Copy a metadata store as a kill leaves it."""
    shutil.copytree(place, target)
    return target


def declared(here: Room) -> set[bytes]:
    """The keys of all durable declarations of a broker."""
    frontend: Any = here.server.frontends._others[0]
    return {
        record_key(name, record)
        for name, host in frontend.broker.virtual_hosts.hosts.items()
        for record in durable_records(host.model)
    }


async def nodes(store: EmbeddedStore) -> set[str]:
    """The names of the nodes of declarations."""
    return set(await store.children(takeover.DECLARATIONS))


@pytest.fixture
def before(tmp_path: Path) -> tuple[Path, SimDisk]:
    """A store and a disk of the version before: declarations, and a topic of each queue."""
    place, disk = tmp_path / "before", SimDisk()
    place.mkdir()

    async def story() -> None:
        async with room(place, disk) as here:
            topics = [
                NewTopic(queue_topic(vhost, record.name), 1)
                for vhost in VHOSTS
                for record in RECORDS
                if isinstance(record, QueueRecord)
            ]
            await created(here, *topics)
        await written_before(place)()

    play(story())
    return place, disk


def snapshots_of_takeover(
    tmp_path: Path, place: Path, disk: SimDisk, monkeypatch: pytest.MonkeyPatch
) -> list[Snapshot]:
    """Start the broker, and return what a kill leaves before and after each step."""
    taken: list[Snapshot] = []

    def noted(function: Any) -> Any:
        async def step(*arguments: Any, **named: Any) -> Any:
            take()
            found = await function(*arguments, **named)
            take()
            return found

        return step

    def take() -> None:
        target = copied(place, tmp_path / f"cut-{len(taken)}")
        taken.append(Snapshot(target, len(disk.ops)))

    async def story() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(takeover, "OPERATIONS_MAX", 5)
            for owner, name in (
                (EmbeddedStore, "multi"), (EmbeddedStore, "create"), (DeclarationLog, "append"),
            ):  # fmt: skip
                patch.setattr(owner, name, noted(getattr(owner, name)))
            async with room(place, disk, kill=True, **AMQP) as here:
                assert declared(here) == WANTED
                assert await nodes(here.store) == {takeover.MOVED}

    play(story())
    return taken


def test_power_cut_in_a_takeover_loses_no_declaration(
    before: tuple[Path, SimDisk], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, disk = before
    taken = snapshots_of_takeover(tmp_path, place, disk, monkeypatch)
    assert len(taken) > 10, "mark, topic, append, three deletions"
    draw = random.Random(20261129)
    cuts = [(at, each.ops) for at, each in enumerate(taken)]
    for at, (each, later) in enumerate(pairwise(taken)):
        if later.ops - each.ops > 1:
            cuts.append((at, draw.randrange(each.ops + 1, later.ops)))
    between = cuts[len(taken) :]
    chosen = cuts[: len(taken)] + draw.sample(between, min(CUTS, len(between)))
    for number, (at, cut) in enumerate(chosen):
        for state, left in enumerate(crash_states(disk, cut, seed=number, samples=1)):
            copy = copied(taken[at].store, tmp_path / f"again-{number}-{state}")
            play(is_whole(copy, left))
            shutil.rmtree(copy)


async def is_whole(place: Path, disk: SimDisk) -> None:
    """Start on what a cut has left: all is there, then and after another start."""
    store = EmbeddedStore(str(place / file_names.METADATA))
    topics = set(await store.children("/brokers/topics"))
    if DECLARATIONS_TOPIC in topics:
        assert takeover.MOVED in await nodes(store), "or the version before deletes topics"
    await store.close()
    for _ in range(2):
        async with room(place, disk, kill=True, **AMQP) as here:
            assert declared(here) == WANTED
            assert await nodes(here.store) == {takeover.MOVED}
            assert topics <= set(here.broker.image.topics)


def test_nodes_that_the_version_before_wrote_after_a_downgrade_are_newer(
    before: tuple[Path, SimDisk],
) -> None:
    place, disk = before
    newer = QueueRecord("q0", False, {"x-max-length": 77})

    async def story() -> None:
        async with room(place, disk, **AMQP):
            pass
        store = EmbeddedStore(str(place / file_names.METADATA))
        path = f"{takeover.DECLARATIONS}/{record_key('/', newer).hex()}"
        await store.create(path, encode_record("/", newer))
        await store.close()
        for _ in range(2):
            async with room(place, disk, **AMQP) as here:
                assert declared(here) == WANTED
                frontend: Any = here.server.frontends._others[0]
                model = frontend.broker.virtual_hosts.hosts["/"].model
                assert model.queues["q0"].arguments["x-max-length"] == 77

    play(story())


def test_malformed_node_stays_and_no_topic_is_deleted(before: tuple[Path, SimDisk]) -> None:
    place, disk = before

    async def story() -> None:
        store = EmbeddedStore(str(place / file_names.METADATA))
        await store.create(f"{takeover.DECLARATIONS}/{'0' * 64}", b"?")
        await store.close()
        async with room(place, disk) as here:
            await created(here, NewTopic("__amqp.queue.unknown", 1))
        for _ in range(2):
            async with room(place, disk, **AMQP) as here:
                assert declared(here) == WANTED
                assert "__amqp.queue.unknown" in here.broker.image.topics
                assert await nodes(here.store) == {takeover.MOVED, "0" * 64}

    play(story())
