"""Unmodified clients play scenarios against a broker; prints the matrix of clients and scenarios.

    python -m tests.outside.rocketmq --broker ours
    python -m tests.outside.rocketmq --broker both               # RocketMQ 5.5.0 beside it
    python -m tests.outside.rocketmq --broker ours go.retries    # one client's one row
    python -m tests.outside.rocketmq --url 127.0.0.1:9876,10911  # the broker's port behind a comma

A scenario that fails on RocketMQ 5.5.0 itself is wrong. `known.py` has the cells without a scenario
and the scenarios that do not hold, with the reasons. Status 1 if another one fails.
"""

import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.outside.matrix.playing import Matrix
from tests.outside.rocketmq.address import Address
from tests.outside.rocketmq.known import KNOWN, LACKING
from tests.outside.rocketmq.ours import headrace
from tests.outside.rocketmq.peer import RocketMQ
from tests.outside.rocketmq.scenarios import SCENARIOS

AT_ONCE = 2
"""Clients that play at one time; most of the time they wait."""
PEER_SETTINGS: dict[str, Any] = {
    "enablePropertyFilter": "true",
    "recallMessageEnable": "true",
    # Above transactionOpBatchInterval: below, it asks about decided messages, too.
    "transactionTimeOut": 4000,
    "transactionCheckInterval": 5000,
    # On a busy machine, too, it stores what it is sent.
    "waitTimeMillsInSendQueue": 10_000,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the chosen scenarios; return the exit status."""
    matrix = Matrix(
        "python -m tests.outside.rocketmq", __doc__, "rocketmq", SCENARIOS, _broker, KNOWN, LACKING,
        at_once=AT_ONCE,
    )  # fmt: skip
    return matrix.play(arguments)


@contextmanager
def _broker(name: str, url: str | None) -> Iterator[Address]:
    if url is not None:
        names, _, broker = url.removeprefix("127.0.0.1:").partition(",")
        yield Address(int(names), int(broker or names))
    elif name == "rocketmq":
        with RocketMQ(**PEER_SETTINGS) as running:
            print(f"RocketMQ {running.version}", flush=True)
            yield running.address
    else:
        place = Path(tempfile.mkdtemp(prefix="headrace-rocketmq-"))
        try:
            with headrace(place) as address:
                yield address
        finally:
            shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
