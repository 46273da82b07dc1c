"""Exec to the first acknowledged produce (acks=all, topic made on the way), several times over.

python -m bench.start [rounds]
"""

import sys
import time
from collections.abc import Callable
from statistics import median

from bench.subjects import Broker, Headrace

IDLE_SECONDS = 10.0


def exec_to_first_acknowledgement(broker_type: Callable[[bool], Broker]) -> dict[str, float]:
    """One start, and of another one the memory when it has idled a while."""
    with broker_type(True) as broker:
        first = broker.first_acknowledged_produce()
    with broker_type(True) as broker:
        time.sleep(IDLE_SECONDS)
        return {"exec to first ack s": first, "RSS idle MB": broker.rss_megabytes()}


def rounds(count: int) -> None:
    """Print each start's seconds to the listener and to the acknowledgement, and the medians."""
    listening, acknowledged = [], []
    for _ in range(count):
        with Headrace(durable=True) as broker:
            listening.append(time.monotonic() - broker.started)
            acknowledged.append(broker.first_acknowledged_produce())
            print(
                f"listens {listening[-1]:.3f} s, acknowledged {acknowledged[-1]:.3f} s,"
                f" CPU {broker.cpu_seconds():.2f} s, RSS {broker.rss_megabytes():.1f} MB"
            )
    print(f"medians: {median(listening):.3f} s, {median(acknowledged):.3f} s")


if __name__ == "__main__":
    rounds(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
