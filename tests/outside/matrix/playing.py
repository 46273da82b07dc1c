"""Plays a protocol's scenarios against its brokers, one after the other."""

import argparse
import logging
import signal
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from multiprocessing import get_context
from random import Random
from types import FrameType
from typing import Any

from tests.outside.matrix.scenario import Scenario, Skipped
from tests.outside.matrix.table import LEFT_OUT, Reasons, sum_up

SECONDS_MAX = 180
"""One scenario."""
OURS = "ours"


@dataclass(frozen=True)
class AnyOf:
    """Addresses of one cluster's brokers: each scenario is played at one drawn at random."""

    addresses: Sequence[Any]
    chance: Random

    def draw(self) -> Any:
        """Return the address for a scenario."""
        return self.chance.choice(self.addresses)


class TooLong(Exception):
    """A scenario did not end."""


@dataclass(frozen=True)
class Matrix:
    """A protocol's matrix: its scenarios, and the brokers that they are played against."""

    program: str
    """The command, as its help names it."""
    description: str
    peer: str
    """The name of the protocol's original broker."""
    scenarios: Sequence[Scenario]
    running: Callable[[str, str | None], AbstractContextManager[Any]]
    """Runs a broker by its name, or takes the one at a URL; gives the address for scenarios."""
    known: Mapping[str, Reasons] = field(default_factory=dict)
    """By broker: why a scenario does not hold."""
    lacking: Reasons = field(default_factory=dict)
    """By client and topic: why there is no scenario."""
    at_once: int = 1
    """Clients whose scenarios are played side by side, each client's in their order."""
    cluster: Callable[[str, int], AbstractContextManager[AnyOf]] | None = None
    """Runs three brokers that are one cluster, by their name; `int` seeds what is drawn."""

    def play(self, arguments: Sequence[str] | None) -> int:
        """Play what the arguments choose; the exit status."""
        parser = argparse.ArgumentParser(prog=self.program, description=self.description)
        parser.add_argument("--broker", choices=(self.peer, OURS, "both"), default=self.peer)
        parser.add_argument("--url", help="a broker that runs already")
        parser.set_defaults(cluster=False)
        if self.cluster is not None:
            parser.add_argument(
                "--cluster", action="store_true", help="three brokers; each scenario at one of them"
            )
            parser.add_argument("--seed", type=int, default=1, help="of the brokers drawn")
        parser.add_argument("--raw", action="store_true", help="show where a scenario failed")
        parser.add_argument("only", nargs="*", help="client, client.topic or words of a claim")
        given = parser.parse_args(arguments)
        chosen = [one for one in self.scenarios if not given.only or _is_asked_for(one, given.only)]
        if not chosen:
            parser.error("no such scenario")
        signal.signal(signal.SIGALRM, _alarm)
        if not given.raw:
            # Clients tell of every connection that is cut, as scenarios do it.
            logging.disable(logging.CRITICAL)
        brokers = {}
        for broker in (OURS, self.peer) if given.broker == "both" else (given.broker,):
            if given.cluster and self.cluster is not None:
                running = self.cluster(broker, given.seed)
            else:
                running = self.running(broker, given.url)
            with running as address:
                brokers[broker] = self._outcomes(chosen, address, raw=given.raw)
        return sum_up(chosen, brokers, self.known, self.lacking)

    def _outcomes(self, chosen: list[Scenario], address: Any, *, raw: bool) -> dict[Scenario, str]:
        """Play scenarios, `at_once` clients side by side."""
        by_client: dict[str, list[Scenario]] = {}
        for scenario in chosen:
            by_client.setdefault(scenario.client, []).append(scenario)

        def play(client: str) -> list[str]:
            return [
                _played(
                    scenario, address.draw() if isinstance(address, AnyOf) else address, raw=raw
                )
                for scenario in by_client[client]
            ]

        outcomes: dict[Scenario, str] = {}
        for client, said in zip(
            by_client, _in_processes(play, by_client, self.at_once), strict=True
        ):
            outcomes |= zip(by_client[client], said, strict=True)
        return outcomes


def _in_processes(
    play: Callable[[str], list[str]], clients: Iterable[str], at_once: int
) -> list[list[str]]:
    """Return what `play` returns for each client, `at_once` of them at one time."""
    if at_once == 1:
        return list(map(play, clients))
    # Not in threads: an alarm ends a scenario. Forked: scenarios cannot be pickled.
    with get_context("fork").Pool(at_once, _OF_PROCESS.append, (play,)) as pool:
        return pool.map(_played_in_process, clients, chunksize=1)


_OF_PROCESS: list[Callable[[str], list[str]]] = []
"""The function that a process of the pool was made for."""


def _played_in_process(client: str) -> list[str]:
    return _OF_PROCESS[0](client)


def _is_asked_for(scenario: Scenario, words: Sequence[str]) -> bool:
    names = (scenario.client, f"{scenario.client}.{scenario.topic}")
    return any(word in names or word in scenario.claim for word in words)


def _alarm(_: int, frame: FrameType | None) -> None:
    raise TooLong(f"it takes longer than {SECONDS_MAX} seconds")


def _played(scenario: Scenario, address: Any, *, raw: bool) -> str:
    """Play one; what is wrong with it, nothing where it holds."""
    began = time.monotonic()
    signal.alarm(SECONDS_MAX)
    said, word = "", "holds"
    try:
        scenario.play(address)
    except Skipped as skipped:
        said, word = f"{LEFT_OUT}{skipped}", "left"
    # Whatever it is, the others are played.
    except Exception as failed:  # noqa: BLE001
        said = f"{type(failed).__name__}: {failed}".strip().splitlines()[0][:400]
        word = "FAILED"
        if raw:
            traceback.print_exc()
    finally:
        signal.alarm(0)
    seconds = time.monotonic() - began
    print(f"  {word:6} {seconds:5.1f} s  {scenario.client:10} {scenario.claim}", flush=True)
    if said:
        print(f"           {said} (at {address})", flush=True)
    return said
