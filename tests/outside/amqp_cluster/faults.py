"""Faults of brokers: which of them come, in an order drawn from a seed, and how each is made."""

import random
import time
from collections.abc import Sequence

from tests.outside.amqp_cluster.clients import Brokers
from tests.outside.amqp_cluster.clusters import BROKERS, Cluster
from tests.outside.amqp_cluster.history import Fault
from tests.outside.amqp_cluster.plan import QUEUES

KILL, PAUSE, CUT_FROM_PEERS, CUT_OFF = "kill", "pause", "cut from peers", "cut off"
PAUSE_SECONDS = (2.0, 12.0)
CUT_SECONDS = (3.0, 12.0)
DOWN_SECONDS_MAX = 3.0


def drawn(kills: int, pauses: int, partitions: int, chance: random.Random) -> list[str]:
    """Return the kinds of the faults of a run in an order of `chance`."""
    cuts = [CUT_OFF if number % 2 else CUT_FROM_PEERS for number in range(partitions)]
    kinds = [KILL] * kills + [PAUSE] * pauses + cuts
    chance.shuffle(kinds)
    return kinds


def inflict(kind: str, cluster: Cluster, brokers: Brokers, chance: random.Random) -> Fault:
    """Make a fault of the leader of a queue drawn at random, and take it back."""
    number = cluster.near_leader(chance.choice(QUEUES).name, chance)
    brokers.living = {one for one in BROKERS if one != number}
    began = time.monotonic()
    ended = began
    if kind == KILL:
        cluster.kill(number)
        ended = time.monotonic()
        time.sleep(chance.uniform(0.0, DOWN_SECONDS_MAX))
        cluster.restart(number)
    elif kind == PAUSE:
        cluster.pause(number)
        time.sleep(chance.uniform(*PAUSE_SECONDS))
        cluster.resume(number)
        ended = time.monotonic()
    else:
        cluster.cut(number, from_clients=kind == CUT_OFF)
        time.sleep(chance.uniform(*CUT_SECONDS))
        cluster.heal()
        ended = time.monotonic()
    brokers.living = set(BROKERS)
    return Fault(kind, number, began, ended)


def count(faults: Sequence[Fault], *kinds: str) -> int:
    """Return how many faults are of these kinds."""
    return sum(fault.kind in kinds for fault in faults)
