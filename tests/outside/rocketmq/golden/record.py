"""Records programs against Headrace, or against a RocketMQ that runs behind the same ports.

    python -m tests.outside.rocketmq.golden.record OUT [CLIENT...] [--peer ADDRESS]

With `--peer` (an IP address): name server and broker of RocketMQ listen there on 9876 and 10911,
the VIP port is 10909, and the broker advertises 127.0.0.1 (`brokerIP1`). The recorder takes these
ports of 127.0.0.1, so both want a network namespace of their own.
"""

import argparse
import tempfile
from collections import defaultdict
from pathlib import Path

from headrace.testing import BrokerThread
from tests.outside.rocketmq.golden.programs import Peers, Program, programs, text
from tests.outside.rocketmq.golden.recording import (
    Entry,
    Recorder,
    read_recording,
    write_recording,
)
from tests.support.rocketmq.kit import SETTINGS, port_of

GOLDEN = Path(__file__).parents[3] / "golden" / "rocketmq-5.5.0-remoting.jsonl.gz"
PEER_PORTS = (9876, 10911, 10909)
PEER_LABELS = 9990
BROKER_SETTINGS = SETTINGS | {
    # The recorded broker's own.
    "rocketmq.default.topic.queues": "8",
    "rocketmq.transaction.timeout.ms": "3000",
    "rocketmq.transaction.check.interval.ms": "4000",
}
RECALLS = {"java5.5-json2": {"rocketmq.recall.message.enable": "true"}}
"""Settings of the broker of one recording."""


def golden_by_client() -> dict[str, list[Entry]]:
    """Return the golden recording, by the client."""
    found: dict[str, list[Entry]] = defaultdict(list)
    for entry in read_recording(GOLDEN):
        found[entry.client].append(entry)
    return dict(found)


def recorded_of_headrace(client: str, program: Program) -> tuple[list[Entry], str]:
    """Return what a program's clients and a new broker send each other, and what it prints."""
    with Recorder() as recorder, tempfile.TemporaryDirectory() as folder:
        address = ("127.0.0.1", recorder.ports[0])
        advertised = {"rocketmq.advertised.address": text(address)}
        with BrokerThread(BROKER_SETTINGS | RECALLS.get(client, {}) | advertised) as broker:
            recorder.addresses = [("127.0.0.1", port_of(broker))]
            peers = Peers(address, address, "headrace-0", recorder, Path(folder))
            output = program(peers)
            return recorder.entries, output


def recorded_of_peer(peer: str, played: dict[str, Program]) -> list[Entry]:
    """Return what the programs' clients and the RocketMQ at an IP address send each other."""
    with Recorder(PEER_PORTS, PEER_LABELS) as recorder, tempfile.TemporaryDirectory() as folder:
        recorder.addresses = [(peer, port) for port in PEER_PORTS]
        name_server, broker = (("127.0.0.1", port) for port in PEER_PORTS[:2])
        peers = Peers(name_server, broker, "broker-a", recorder, Path(folder))
        for client, program in played.items():
            print(client, program(peers), flush=True)
        return recorder.entries


def main() -> None:
    """Record the programs that the command line names, all if it names none."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("clients", nargs="*")
    parser.add_argument("--peer")
    given = parser.parse_args()
    known = programs(golden_by_client())
    chosen = given.clients or list(known)
    entries: list[Entry] = []
    if given.peer:
        entries = recorded_of_peer(given.peer, {client: known[client] for client in chosen})
    else:
        for client in chosen:
            recorded, output = recorded_of_headrace(client, known[client])
            print(client, output, flush=True)
            entries += recorded
    write_recording(given.out, entries)


if __name__ == "__main__":
    main()
