"""The story of replicas with many seeds in several processes, and the sum of their counters."""

import logging
import multiprocessing
import resource
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

from headrace.testing.sim.branches import RULES
from headrace.testing.sim.faults.swarm import ELECTIONS_MIN, FAULTS
from headrace.testing.sim.replicated import ACKNOWLEDGED_MIN, Told, replicated_work
from headrace.testing.sim.stories import play

SEEDS_FOR_ALL = 100
"""From this number of seeds on, every fault must occur and every branch be taken."""
EXPECTED = (*FAULTS, *RULES)
"""The counters that must then be above 0."""


class Verdict(NamedTuple):
    """The result of the story of replicas with one seed."""

    seed: int
    told: Told | None
    """None if the seed failed."""
    failure: str
    digest: str
    cpu_seconds: float


def judged(seed: int) -> Verdict:
    """Play the story with one seed and return the result."""
    logger = logging.getLogger("headrace")
    began, passed_on = _cpu_seconds(), logger.propagate
    logger.propagate = False  # exceptions that are logged fail the seed anyway
    try:
        told, history = play(replicated_work, seed)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is this seed's failure
        failure = f"{type(error).__name__}: {error}"
        return Verdict(seed, None, failure, "", _cpu_seconds() - began)
    finally:
        logger.propagate = passed_on
    failure = _too_little(told)
    return Verdict(seed, told, failure, history.digest(), _cpu_seconds() - began)


def _too_little(told: Told) -> str:
    if told.acknowledged < ACKNOWLEDGED_MIN:
        return f"only {told.acknowledged} records were acknowledged, not {ACKNOWLEDGED_MIN}"
    if told.elections < ELECTIONS_MIN:
        return f"only {told.elections} elections, not {ELECTIONS_MIN}"
    return ""


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def verdicts(seeds: Sequence[int], jobs: int) -> Iterator[Verdict]:
    """Yield the result of each seed, in their order, played by `jobs` processes."""
    if jobs <= 1:
        yield from map(judged, seeds)
        return
    context = multiprocessing.get_context("forkserver")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        yield from pool.map(judged, seeds)


def run(seeds: Sequence[int], jobs: int) -> int:
    """Play the seeds and print counters and failures; return the exit code, 1 on a failure."""
    found: list[Verdict] = []
    for verdict in verdicts(seeds, jobs):
        found.append(verdict)
        if verdict.failure:
            sys.stdout.write(
                f"seed {verdict.seed}: {verdict.failure}\n"
                f"  again: make sim SEED={verdict.seed} ARGS=replicated_work\n"
            )
            sys.stdout.flush()
    counts = sum((verdict.told.counts for verdict in found if verdict.told), Counter[str]())
    missing = absent(counts) if len(seeds) >= SEEDS_FOR_ALL else []
    sys.stdout.write(table(counts))
    for name in missing:
        sys.stdout.write(f"never: {name}\n")
    failed = sum(bool(verdict.failure) for verdict in found)
    sys.stdout.write(_summary(found, failed))
    return int(failed > 0 or bool(missing))


def absent(counts: Counter[str]) -> list[str]:
    """Return the faults and branches that never occurred."""
    return [name for name in EXPECTED if not counts[name]]


def table(counts: Counter[str]) -> str:
    """Return the counters as lines, each with its rule."""
    names = [*EXPECTED, *sorted(counts.keys() - set(EXPECTED))]
    width = max(map(len, names))
    return "".join(
        f"{counts[name]:9}  {name:{width}}  {RULES.get(name, 'fault' if name in FAULTS else '')}"
        .rstrip() + "\n"
        for name in names
    )  # fmt: skip


def _summary(found: Iterable[Verdict], failed: int) -> str:
    told = [verdict.told for verdict in found if verdict.told]
    cpu = [verdict.cpu_seconds for verdict in found]
    least = min((each.acknowledged for each in told), default=0)
    fewest = min((each.elections for each in told), default=0)
    acknowledged = sum(each.acknowledged for each in told)
    elections = sum(each.elections for each in told)
    return (
        f"{len(cpu)} seeds, {failed} failed; {acknowledged} acknowledged, {least} at least;"
        f" {elections} elections, {fewest} at least; CPU seconds a seed:"
        f" {sum(cpu) / max(len(cpu), 1):.2f}, {max(cpu, default=0):.2f} at most\n"
    )
