"""Sections of queues: thousands declared, a restart with them, and what the generator can."""

import time
from collections.abc import Callable, Sequence

from bench import queue_load
from bench.queue_rows import PREFETCH, WINDOW, reached
from bench.report import Goal
from bench.sections import Figures, Found, Section, count
from bench.subjects import START_SECONDS_MAX, Broker, Subject, in_turn

QUEUES = 10_000
AT_ONCE = 10
_SINK_SECONDS = 2.0
_SINK_DRAINED = 2_000_000


def declare(queues: int, connections: int) -> Callable[[Sequence[Subject], int], Found]:
    """Durable classic queues, each declared once the one before it is there."""

    def measure(subjects: Sequence[Subject], rounds: int) -> Found:
        for number in range(rounds):
            for subject in in_turn(subjects, number):
                with subject.broker(False) as broker:
                    yield subject.name, _declared(broker, queues, connections)
                    if connections > 1:
                        yield subject.name, _restarted(broker, queues)

    return measure


def _declared(broker: Broker, queues: int, connections: int) -> Figures:
    cpu = broker.cpu_seconds()
    done = queue_load.run(
        "declare", reached(broker), queue="many", messages=queues, connections=connections
    )
    cpu = broker.cpu_seconds() - cpu
    return {
        "queues/s": done.per_second,
        "CPU-us/queue": cpu / done.messages * 1e6,
        "RSS MB": broker.rss_megabytes(),
    }


def _restarted(broker: Broker, queues: int) -> Figures:
    """Stop in order and start again: until a message is confirmed in the last of the queues."""
    broker.stop()
    broker.start()
    broker.wait_ready()
    deadline = broker.started + START_SECONDS_MAX
    while True:
        try:
            queue_load.run(
                "publish", reached(broker), queue=f"many-{queues - 1}", messages=1, window=1
            )
        except RuntimeError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            break
    return {"up again, s": time.monotonic() - broker.started}


def ceiling(subjects: Sequence[Subject], rounds: int) -> Found:
    """The load generator against a sink: no row says more than this."""
    for _ in range(rounds):
        found: Figures = {}
        for size in (16, 1024):
            with queue_load.sink(size) as address:
                asked = {"size": size, "seconds": _SINK_SECONDS}
                plain = queue_load.run("publish", address, **asked)
                confirmed = queue_load.run("publish", address, window=WINDOW, **asked)
                drained = queue_load.run(
                    "drain", address, messages=_SINK_DRAINED, prefetch=PREFETCH, **asked
                )
            found |= {
                f"published {size} B: messages/s": plain.per_second,
                f"confirmed {size} B: messages/s": confirmed.per_second,
                f"drained {size} B: messages/s": drained.per_second,
            }
        yield subjects[0].name, found


def queue_sections(scale: float) -> list[Section]:
    """Every section, in the order in which they run."""
    queues = max(int(QUEUES * scale), AT_ONCE)
    return [
        Section("the load generator itself, against a sink", ceiling, seconds_max=120),
        Section(
            f"{count(queues)} queues declared over {AT_ONCE} connections, and a restart",
            declare(queues, AT_ONCE),
            seconds_max=900,
            goals={"queues/s": Goal(least=3), "RSS MB": Goal(most=0.5)},
            ceilings={"up again, s": Goal(most=5)},
        ),
        Section(
            f"{count(queues)} queues declared over one connection",
            declare(queues, 1),
            seconds_max=900,
            goals={"queues/s": Goal(least=1)},
        ),
    ]
