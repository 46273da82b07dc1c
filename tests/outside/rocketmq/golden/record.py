"""Records programs against Headrace or RocketMQ 5.5.0, and compares with the golden recording.

    python -m tests.outside.rocketmq.golden.record [CLIENT...] [--broker rocketmq] [--out FILE]

Prints the differences that no row of the list explains; status 1 if there are any. For RocketMQ
only the rows count that do not always occur. It listens on 127.0.0.2 and advertises 127.0.0.1,
where the recorder has the same ports.
"""

import argparse
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from headrace.testing import BrokerThread
from tests.outside.rocketmq.golden.comparison import (
    DIFFERENCES,
    Difference,
    Explained,
    differences,
    read_explained,
    shown_differences,
)
from tests.outside.rocketmq.golden.programs import Peers, Program, programs, text
from tests.outside.rocketmq.golden.recording import (
    Entry,
    Recorder,
    read_recording,
    write_recording,
)
from tests.outside.rocketmq.peer import RocketMQ
from tests.support.listed_differences import SOMETIMES, unexplained
from tests.support.processes.process import Host
from tests.support.rocketmq.kit import SETTINGS, port_of

GOLDEN = Path(__file__).parents[3] / "golden" / "rocketmq-5.5.0-remoting.jsonl.gz"
PEER = Host("127.0.0.2")
PEER_SETTINGS: dict[str, Any] = {
    "enablePropertyFilter": "true",
    "transactionTimeOut": 3000,
    "transactionCheckInterval": 4000,
    "traceTopicEnable": "true",
}
"""The recorded broker's own."""
BROKER_SETTINGS = SETTINGS | {
    # As the recorded broker's.
    "rocketmq.default.topic.queues": "8",
    "rocketmq.transaction.timeout.ms": "3000",
    "rocketmq.transaction.check.interval.ms": "4000",
}
RECALLS = "java5.5-json2"
"""The recording whose broker allows recalls."""
RUNS_MAX = 3
CLIENT_LOG, TIMED_OUT = "rocketmq_client.log", "RemotingTimeoutException"


Record = Callable[[str, Program], "Recorded"]


def golden_by_client() -> dict[str, list[Entry]]:
    """Return the golden recording, by the client."""
    found: dict[str, list[Entry]] = defaultdict(list)
    for entry in read_recording(GOLDEN):
        found[entry.client].append(entry)
    return dict(found)


class Recorded(NamedTuple):
    """The frames of a program's clients and a broker, and the output of the program."""

    entries: list[Entry]
    output: str
    is_timed_out: bool
    """Whether a Java client gave up an answer, as on a busy machine: it closes its connection, and
    asks on the next one before its heartbeat."""


class Compared(NamedTuple):
    """A recording, its differences from the golden one, and those that no row explains."""

    recorded: Recorded
    found: list[Difference]
    left: list[Difference]


def compared(
    record: Record, run: str, golden: Mapping[str, list[Entry]], rows: Sequence[Explained]
) -> Compared:
    """Record a program and compare; one that differs and whose client gave up is repeated."""
    program = programs(golden)[run]
    expected = [entry for client in run.split() for entry in golden[client]]
    for _ in range(RUNS_MAX):
        recorded = record(run, program)
        found = differences(expected, recorded.entries)
        left, _unused = unexplained(found, rows)
        if not left or not recorded.is_timed_out:
            break
    return Compared(recorded, found, left)


def _played(program: Program, peers: Peers) -> Recorded:
    output = program(peers)
    logs = [log.read_text(errors="replace") for log in peers.folder.rglob(CLIENT_LOG)]
    return Recorded(peers.recorder.entries, output, any(TIMED_OUT in log for log in logs))


def recorded_of_headrace(client: str, program: Program) -> Recorded:
    """Record a program with a new broker of ours."""
    with Recorder() as recorder, tempfile.TemporaryDirectory() as folder:
        address = ("127.0.0.1", recorder.ports[0])
        advertised = {"rocketmq.advertised.address": text(address)}
        recalls = {"rocketmq.recall.message.enable": str(client == RECALLS).lower()}
        with BrokerThread(BROKER_SETTINGS | recalls | advertised) as broker:
            recorder.addresses = [("127.0.0.1", port_of(broker))]
            return _played(program, Peers(address, address, "headrace-0", recorder, Path(folder)))


def recorded_of_peer(client: str, program: Program) -> Recorded:
    """Record a program with a new RocketMQ."""
    recalls = {"recallMessageEnable": str(client == RECALLS).lower()}
    real = RocketMQ(host=PEER, **PEER_SETTINGS | recalls)
    name_server, broker = real.address
    ports = (name_server, broker, broker - 2)  # the last one is the VIP channel's
    with real, Recorder(ports) as recorder, tempfile.TemporaryDirectory() as folder:
        recorder.addresses = [(PEER.address, port) for port in ports]
        of_names, of_broker = (("127.0.0.1", port) for port in real.address)
        return _played(program, Peers(of_names, of_broker, "broker-a", recorder, Path(folder)))


def main() -> int:
    """Record the programs that the command line names, all if it names none."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clients", nargs="*")
    parser.add_argument("--broker", choices=("ours", "rocketmq"), default="ours")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    golden, rows = golden_by_client(), read_explained(DIFFERENCES)
    record = recorded_of_headrace
    if given.broker == "rocketmq":
        record = recorded_of_peer
        rows = [row for row in rows if row.reason.startswith(SOMETIMES)]
    entries: list[Entry] = []
    differ = 0
    for run in given.clients or programs(golden):
        recorded, _, left = compared(record, run, golden, rows)
        entries += recorded.entries
        differ += len(left)
        print(f"{run}: {len(recorded.entries)} frames, {len(left)} differences", flush=True)
        if left:
            print(shown_differences(left), recorded.output[-2000:], sep="\n", flush=True)
    if given.out:
        write_recording(given.out, entries)
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
