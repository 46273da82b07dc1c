"""Declarations through power cuts: each that was answered is there, each deleted one stays away."""

import random
import shutil
from pathlib import Path
from typing import Any, NamedTuple

from headrace.posix.awaiting import called_back
from headrace.queues.model.declarations import ExchangeFlags, QueueCounts, QueueFlags
from headrace.queues.model.exchanges import Binding, Destination
from headrace.queues.model.stored_model import durable_records
from headrace.queues.model.stored_records import encode_record, record_key
from headrace.queues.model.virtual_host import VirtualHost
from headrace.testing.disk import SimDisk
from headrace.testing.disk_crash import crash_states
from headrace.vhosts.policies.commands import PolicyChange, change_policies
from tests.support.processes.broker import Room, play, room
from tests.support.queues.policies import vhost_policy

AMQP: dict[str, Any] = {
    "listeners": "PLAINTEXT://127.0.0.1:9092,AMQP://127.0.0.1:5672",
    "amqp_guest": "true",
}
STEPS = 16
TURNS = 10
"""Turns of the loop that the disk's threads take: more than from a commit to its answer."""
CUTS_MAX = 24


class Moment(NamedTuple):
    """The declarations that a power cut before the disk's operation `ops` may leave."""

    ops: int
    store: Path
    answered: frozenset[bytes]
    """The declarations after the last answered change."""
    asked: frozenset[bytes]
    """The same after the change that is not answered yet."""


def model_of(here: Room) -> VirtualHost:
    """The model of the vhost /."""
    frontend: Any = here.server.frontends._others[0]
    model: VirtualHost = frontend.broker.virtual_hosts.hosts["/"].model
    return model


def declared(model: VirtualHost) -> frozenset[bytes]:
    """The keys and the values of the durable declarations."""
    records = list(durable_records(model))
    return frozenset(
        content for each in records for content in (record_key("/", each), encode_record("/", each))
    )


def change(model: VirtualHost, draw: random.Random) -> None:
    """Declare, bind, unbind or delete, and set or clear a policy, at random."""
    name = draw.choice("abc")
    binding = Binding("e", Destination("queue", name), draw.choice(("k", "#")), {})
    model.declare_exchange("e", "topic", ExchangeFlags(durable=True), {})
    step = draw.randrange(6)
    if step < 3 or name not in model.queues:
        model.declare_queue(name, QueueFlags(durable=True), {}, None)
    if step == 0:
        model.delete_queue(name, None, QueueCounts())
    elif step == 1:
        model.delete_exchange("e")
    elif step == 2:
        model.unbind(binding, None)
    else:
        model.bind(binding, None)
    if draw.randrange(2):
        policy = vhost_policy(name, length=draw.randrange(1, 4))
        wanted = policy.policy if draw.randrange(3) else None
        change_policies(model, [PolicyChange(policy.id, wanted)], len(model.policies))


async def moments(place: Path, disk: SimDisk, copies: Path) -> list[Moment]:
    """Change declarations one after the other; return what a cut may leave."""
    found: list[Moment] = []
    draw = random.Random(20261132)
    async with room(place, disk, kill=True, **AMQP) as here:
        model = model_of(here)
        answered = declared(model)
        for number in range(STEPS):
            change(model, draw)
            asked = declared(model)
            store = copies / str(number)
            shutil.copytree(place, store)
            found += [
                Moment(ops, store, answered, asked) for ops in await played(here, model, disk)
            ]
            answered = asked
    # The first change also creates the topic, in the store, which a copy from before lacks.
    return [moment for moment in found if moment.store != copies / "0"]


class SlowDisk(SimDisk):
    """A disk whose threads are slow."""

    turns = 0

    def settle(self, steps: int = 1_000_000) -> int:
        """Do the queued work, at some of the calls; return the number of jobs done."""
        self.turns += 1
        return super().settle(steps) if self.turns % TURNS == 0 else 0


async def played(here: Room, model: VirtualHost, disk: SimDisk) -> range:
    """Wait until a change is answered; return the numbers of the disk's operations for it."""
    began = len(disk.ops)
    await called_back(model.kept.when_kept)
    return range(began, len(disk.ops) + 1)


def test_power_cut_loses_no_answered_declaration(tmp_path: Path) -> None:
    place, disk, copies = tmp_path / "store", SlowDisk(), tmp_path / "copies"
    place.mkdir()
    found: list[Moment] = []

    async def story() -> None:
        found.extend(await moments(place, disk, copies))

    play(story())
    draw = random.Random(1)
    chosen = draw.sample(found, min(CUTS_MAX, len(found)))
    outcomes = set()
    for number, moment in enumerate(chosen):
        for state, left in enumerate(crash_states(disk, moment.ops, seed=number, samples=2)):
            store = tmp_path / f"again-{number}-{state}"
            shutil.copytree(moment.store, store)
            outcomes.add(play_again(store, left, moment))
            shutil.rmtree(store)
    assert outcomes == {"answered", "asked", "either"}


def play_again(store: Path, disk: SimDisk, moment: Moment) -> str:
    """Start on what a cut has left; return which of the two states was found."""
    found: list[frozenset[bytes]] = []

    async def story() -> None:
        for _ in range(2):
            async with room(store, disk, kill=True, **AMQP) as here:
                found.append(declared(model_of(here)))

    play(story())
    assert found[0] == found[1]
    assert moment.answered & moment.asked <= found[0] <= moment.answered | moment.asked
    if moment.answered == moment.asked:
        return "either"
    return "answered" if found[0] == moment.answered else "asked"
