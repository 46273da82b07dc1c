"""Sections of quorum queues on three brokers: what they move, and how soon others lead them."""

from collections.abc import Callable, Iterator, Sequence

from bench import queue_failover, queue_load
from bench.queue_clusters import QueueCluster, cluster_of
from bench.queue_rows import PREFETCH, SECONDS, WINDOW
from bench.report import GENERATOR_SHARE, Goal
from bench.sections import Figures, Found, Section
from bench.subjects import Subject, in_turn

QUEUE = "bench-replicated"
DRAINED = 100_000
WARM_SECONDS = 2.0
LOADS = ("publish, confirmed", "drain", "at once")
OF_LEADER = "by another broker / by the leader"


def _load(cluster: QueueCluster, broker: int, what: str, **options: object) -> Figures:
    """Have the generator connect to a broker; messages a second, and CPU of all brokers."""
    cpu = cluster.cpu_seconds()
    done = queue_load.run(
        what, _address(cluster, broker), queue=QUEUE, kind="quorum",
        seconds=SECONDS, prefetch=PREFETCH, **options,
    )  # fmt: skip
    cpu = cluster.cpu_seconds() - cpu
    return {
        "messages/s": done.per_second,
        "CPU-us/message": cpu / done.messages * 1e6,
        GENERATOR_SHARE: 100 * done.cpu / done.seconds,
    }


def _address(cluster: QueueCluster, broker: int) -> str:
    address = cluster.addresses[broker]
    return f"{address.host}:{address.port}"


def _loads(cluster: QueueCluster, broker: int, drained: int) -> dict[str, Figures]:
    """Run each load through a broker; the queue is empty again behind it."""
    _load(cluster, broker, "publish", messages=drained, window=WINDOW)
    cluster.until_in_step(QUEUE)
    drain = _load(cluster, broker, "drain", messages=drained)
    published = _load(cluster, broker, "publish", window=WINDOW)
    queue_load.run("remove", _address(cluster, broker), queue=QUEUE)
    both = _load(cluster, broker, "both", window=WINDOW)
    return dict(zip(LOADS, (published, drain, both), strict=True))


def _moved(drained: int) -> Callable[[Sequence[Subject], int], Found]:
    def measure(subjects: Sequence[Subject], rounds: int) -> Found:
        """Each round of each subject has a cluster of its own: none stands beside another."""
        for number in range(rounds):
            for subject in in_turn(subjects, number):
                with cluster_of(subject) as cluster:
                    yield from ((subject.name, found) for found in _measured(cluster, drained))

    return measure


def _measured(cluster: QueueCluster, drained: int) -> Iterator[Figures]:
    for broker in range(len(cluster.addresses)):
        queue_load.run(
            "both", _address(cluster, broker), queue=f"bench-warm-{broker}", kind="quorum",
            seconds=WARM_SECONDS, window=WINDOW, prefetch=PREFETCH,
        )  # fmt: skip
    # Both declare a queue's leader on the broker that is asked.
    own = _loads(cluster, 0, drained)
    for load, figures in own.items():
        yield {f"{load}: {unit}": value for unit, value in figures.items()}
    _load(cluster, 0, "publish", messages=1, window=1)
    other = (cluster.leader(QUEUE) + 1) % len(cluster.addresses)
    published = _load(cluster, other, "publish", messages=drained, window=WINDOW)
    taken = _load(cluster, other, "drain", messages=drained)
    for load, figures in (("publish, confirmed", published), ("drain", taken)):
        share = figures["messages/s"] / own[load]["messages/s"]
        yield {f"{load}: {OF_LEADER}": share}


def _deaths(subjects: Sequence[Subject], rounds: int) -> Found:
    for number in range(rounds):
        for subject in in_turn(subjects, number):
            with cluster_of(subject) as cluster:
                yield subject.name, queue_failover.deaths(cluster)


def queue_cluster_sections(scale: float) -> list[Section]:
    """Every section of queues on three brokers, in the order in which they run."""
    rates = {f"{load}: messages/s": Goal(least=2) for load in LOADS}
    costs = {f"{load}: CPU-us/message": Goal(most=0.5) for load in LOADS}
    return [
        Section(
            "3 brokers, quorum queue of 3 replicas",
            _moved(max(int(DRAINED * scale), WINDOW)),
            seconds_max=900,
            goals=rates | costs,
            ceilings={
                f"{load}: {OF_LEADER}": Goal(least=0.6) for load in ("publish, confirmed", "drain")
            },
        ),
        Section(
            f"the leader of a quorum queue is killed, {queue_failover.DEATHS} times",
            _deaths,
            seconds_max=900,
            rounds_max=1,
            ceilings={"confirm gap ms": Goal(most=1000), "delivery gap ms": Goal(most=1000)},
        ),
    ]
