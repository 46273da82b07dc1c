"""Fetch sessions of thousands of idle partitions: what their wakes cost the loop, and its clients.

    python -m bench.idle_sessions [partitions]

Two sessions hold so many partitions that nobody writes to, and each asks again as soon as it is
answered: `WAIT_MS` after it asked, for there is nothing. What that costs is told by the CPU time of
a broker that does nothing else; then a writer and a reader at a steady rate on another topic say
what they notice of it.
"""

import struct
import sys
import threading
import time
from collections.abc import Sequence

from bench import latency, rawload
from bench.subjects import Broker, Headrace

PARTITIONS = 3300
SESSIONS = 2
WAIT_MS = 20
"""So that there are wakes enough to tell their cost; a client's default is 500."""
RATE, SECONDS = 5000, 6.0
BYTES_MAX = 1 << 20
IDLE = "idle"
Figures = dict[str, float]


def _fetch_frame(session: int, epoch: int, partitions: Sequence[int]) -> bytes:
    """A Fetch v11 request of a session: all `partitions` when it begins, none of them later."""
    head = struct.pack(">iiiibii", -1, WAIT_MS, 1, BYTES_MAX, 0, session, epoch)
    places = b"".join(struct.pack(">iiqqi", at, -1, 0, -1, BYTES_MAX) for at in partitions)
    named = rawload.string(IDLE) + rawload.LENGTH.pack(len(partitions)) + places
    topics = rawload.LENGTH.pack(1) + named if partitions else rawload.LENGTH.pack(0)
    forgotten = rawload.LENGTH.pack(0)
    return rawload.frame(
        rawload.FETCH, rawload.FETCH_VERSION, head + topics + forgotten + rawload.string("")
    )


class Session(threading.Thread):
    """One session, which asks until it is stopped."""

    def __init__(self, bootstrap: str, partitions: int) -> None:
        super().__init__(daemon=True)
        self._address = bootstrap
        self._partitions = partitions
        self.established = threading.Event()
        self.stopped = False
        self.wakes = 0

    def run(self) -> None:
        into = memoryview(bytearray(1 << 20))
        with rawload.connect(self._address) as link:
            link.sendall(_fetch_frame(0, 0, range(self._partitions)))
            session, epoch = self._session_of(rawload.receive(link, into)), 1
            self.established.set()
            while not self.stopped:
                link.sendall(_fetch_frame(session, epoch, ()))
                if self._session_of(rawload.receive(link, into)) != session:
                    raise RuntimeError("the broker has dropped the session")
                epoch += 1
                self.wakes += 1

    @staticmethod
    def _session_of(answer: memoryview) -> int:
        """After correlation id and throttle time: error and session id."""
        error, session = struct.unpack_from(">hi", answer, 8)
        if error or not session:
            raise RuntimeError(f"Fetch: error {error}, session {session}")
        return int(session)


def _probe(broker: Broker, topic: str) -> float:
    """The 99th percentile of a writer and a reader on `topic`, in milliseconds."""
    broker.create_topic(topic, 1)
    return latency.measure(broker.bootstrap, topic, rate=RATE, seconds=SECONDS).p99


def _wake_seconds(broker: Broker, sessions: Sequence[Session]) -> float:
    """CPU time of a wake, while the broker does nothing else."""
    before, cpu = sum(session.wakes for session in sessions), broker.cpu_seconds()
    time.sleep(SECONDS)
    wakes = sum(session.wakes for session in sessions) - before
    return (broker.cpu_seconds() - cpu) / wakes


def measure(broker: Broker, partitions: int) -> Figures:
    """Start `broker`; measure without the sessions, then with them."""
    with broker:
        broker.create_topic(IDLE, partitions)
        _probe(broker, "warm")
        alone = _probe(broker, "alone")
        sessions = [Session(broker.bootstrap, partitions) for _ in range(SESSIONS)]
        for session in sessions:
            session.start()
        if not all(session.established.wait(30) for session in sessions):
            raise RuntimeError(f"{broker.name}: no fetch session is established")
        wake_seconds = _wake_seconds(broker, sessions)
        beside = _probe(broker, "beside")
        for session in sessions:
            session.stopped = True
            session.join(10)
        return {
            "CPU ms/wake": wake_seconds * 1000,
            "p99 ms alone": alone,
            "p99 ms beside them": beside,
            "p99 beside them / alone": beside / alone,
        }


def main() -> None:
    partitions = int(sys.argv[1]) if sys.argv[1:] else PARTITIONS
    for name, value in measure(Headrace(durable=False), partitions).items():
        print(f"{name}: {value:.3f}")


if __name__ == "__main__":
    main()
