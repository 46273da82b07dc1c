"""The brokers that are planned for a durable queue's messages, by its arguments and policies.

The topic is created on them with the queue's first use.
"""

from collections.abc import Mapping, Sequence

from headrace.model.nouns import BrokerId
from headrace.queue_stores.queue_settings import QueueType
from headrace.queues.model.declarations import Arguments, DeclaredQueue

REPLICAS = 3
"""Replicas of a quorum queue or a stream, where there are so many brokers."""
_LOCATORS = ("x-queue-leader-locator", "x-queue-master-locator")
_SIZES = ("x-quorum-initial-group-size", "x-initial-cluster-size")
_CLIENT_LOCAL = "client-local"


def planned_replicas(
    queue: DeclaredQueue,
    home: BrokerId,
    brokers: Sequence[BrokerId],
    led: Mapping[int, int],
    classic: int = REPLICAS,
    arguments: Arguments | None = None,
) -> tuple[int, ...]:
    """Return the replicas of a queue, its first leader in front; none for a transient queue.

    `home`: the client's broker, which leads if the locator is client-local, as it is by default;
    else the broker that leads fewest queues does. `led`: queues that are planned to be led by each
    broker. `classic`: replicas of a classic queue. A queue with priorities has one replica, as its
    partitions must have one leader. `arguments`: the queue's, joined with its policies; None: it
    has none.
    """
    arguments = queue.arguments if arguments is None else arguments
    if not queue.durable or queue.settings.topic is not None or not brokers:
        return ()
    ring = sorted(brokers)
    locator = _argument(arguments, _LOCATORS, _CLIENT_LOCAL)
    leader = home
    if locator != _CLIENT_LOCAL or home not in ring:
        leader = min(ring, key=lambda broker: (led.get(broker, 0), broker))
    at = ring.index(leader)
    default = classic if queue.settings.queue_type is QueueType.CLASSIC else REPLICAS
    size = _argument(arguments, _SIZES, default)
    count = 1 if queue.settings.priority_max else size if isinstance(size, int) else default
    return tuple((ring[at:] + ring[:at])[:count])


def _argument(arguments: Arguments, names: Sequence[str], default: object) -> object:
    return next((arguments[name] for name in names if name in arguments), default)
