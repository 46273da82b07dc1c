"""Unmodified clients play scenarios against a broker; prints the matrix of clients and scenarios.

    python -m tests.outside.amqp --broker rabbitmq
    python -m tests.outside.amqp --broker both                    # one beside the other
    python -m tests.outside.amqp --broker ours pika.queues        # one client's one topic
    python -m tests.outside.amqp --url amqp://guest:guest@127.0.0.1:5672/

The same scenarios are played against RabbitMQ 4.0, who is right: what fails there is the scenario's
fault. `known.py` has what is known to be otherwise with us, and why. Status 1 where anything else
fails.
"""

import argparse
import logging
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from urllib.parse import unquote, urlsplit

from tests.outside.amqp.address import Address
from tests.outside.amqp.matrix import LEFT_OUT, sum_up
from tests.outside.amqp.ours import Headrace
from tests.outside.amqp.peer import rabbitmq
from tests.outside.amqp.scenarios import SCENARIOS
from tests.outside.amqp.scenarios.scenario import Scenario, Skipped

SECONDS_MAX = 180
"""One scenario."""


class TooLong(Exception):
    """A scenario did not end."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Play what is asked for; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.outside.amqp", description=__doc__)
    parser.add_argument("--broker", choices=("rabbitmq", "ours", "both"), default="rabbitmq")
    parser.add_argument("--url", help="a broker that runs already")
    parser.add_argument("--raw", action="store_true", help="show where a scenario failed")
    parser.add_argument("only", nargs="*", help="client, client.topic or words of a claim")
    given = parser.parse_args(arguments)
    chosen = [one for one in SCENARIOS if not given.only or _is_asked_for(one, given.only)]
    if not chosen:
        parser.error("no such scenario")
    signal.signal(signal.SIGALRM, _alarm)
    if not given.raw:
        # Clients tell of every connection that is cut, as scenarios do it.
        logging.disable(logging.CRITICAL)
    brokers = {}
    for broker in ("ours", "rabbitmq") if given.broker == "both" else (given.broker,):
        with _broker(broker, given.url) as address:
            brokers[broker] = {
                scenario: _played(scenario, address, raw=given.raw) for scenario in chosen
            }
    return sum_up(chosen, brokers)


def _is_asked_for(scenario: Scenario, words: Sequence[str]) -> bool:
    names = (scenario.client, f"{scenario.client}.{scenario.topic}")
    return any(word in names or word in scenario.claim for word in words)


@contextmanager
def _broker(name: str, url: str | None) -> Iterator[Address]:
    if url is not None:
        parts = urlsplit(url)
        vhost = unquote(parts.path[1:]) or "/"
        who = (unquote(parts.username or "guest"), unquote(parts.password or "guest"))
        yield Address(parts.port or 5672, *who, vhost, parts.hostname or "127.0.0.1")
    elif name == "rabbitmq":
        with rabbitmq() as node:
            print(f"RabbitMQ {node.version}", flush=True)
            yield node.address
    else:
        place = Path(tempfile.mkdtemp(prefix="headrace-amqp-"))
        try:
            with Headrace(place) as broker:
                yield broker.address
        finally:
            shutil.rmtree(place, ignore_errors=True)


def _alarm(_: int, frame: FrameType | None) -> None:
    raise TooLong(f"it takes longer than {SECONDS_MAX} seconds")


def _played(scenario: Scenario, address: Address, *, raw: bool) -> str:
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
    print(f"  {word:6} {seconds:5.1f} s  {scenario.client:9} {scenario.claim}", flush=True)
    if said:
        print(f"           {said}", flush=True)
    return said


if __name__ == "__main__":
    sys.exit(main())
