"""Unmodified clients play scenarios against a broker; prints the matrix of clients and scenarios.

    python -m tests.outside.amqp --broker rabbitmq
    python -m tests.outside.amqp --broker both                    # one beside the other
    python -m tests.outside.amqp --broker ours pika.queues        # one client's one topic
    python -m tests.outside.amqp --broker ours --cluster          # each at one of three brokers
    python -m tests.outside.amqp --url amqp://guest:guest@127.0.0.1:5672/

The same scenarios are played against RabbitMQ 4.0, who is right: what fails there is the scenario's
fault. `known.py` has what is known to be otherwise with us, and why. Status 1 where anything else
fails.
"""

import random
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tests.outside.amqp import known
from tests.outside.amqp.address import Address
from tests.outside.amqp.ours import Headrace, furnish
from tests.outside.amqp.ours_cluster import HeadraceCluster
from tests.outside.amqp.peer import rabbitmq
from tests.outside.amqp.rabbit_cluster import RabbitMQCluster
from tests.outside.amqp.scenarios import SCENARIOS
from tests.outside.matrix.playing import AnyOf, Matrix


def main(arguments: Sequence[str] | None = None) -> int:
    """Play what is asked for; the exit status."""
    matrix = Matrix(
        "python -m tests.outside.amqp", __doc__, "rabbitmq", SCENARIOS, _broker,
        {"ours": known.OURS}, cluster=_cluster,
    )  # fmt: skip
    return matrix.play(arguments)


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


@contextmanager
def _cluster(name: str, seed: int) -> Iterator[AnyOf]:
    chance = random.Random(seed)
    if name == "rabbitmq":
        with RabbitMQCluster() as nodes:
            yield AnyOf(nodes.addresses, chance)
        return
    with (
        tempfile.TemporaryDirectory(prefix="headrace-amqp-cluster-") as place,
        HeadraceCluster(Path(place)) as brokers,
    ):
        furnish(brokers.bootstrap)
        yield AnyOf(brokers.addresses, chance)


if __name__ == "__main__":
    sys.exit(main())
