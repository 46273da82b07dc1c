"""How soon a test has its broker: `headrace.testing.BrokerThread` until it listens, import aside.

`python -m bench.fixture [rounds]` prints one JSON object; run in a process of its own.
"""

import json
import sys
import time
from statistics import median

ROUNDS = 20


def rounds(count: int) -> dict[str, float]:
    """In this process; the first round, which imports what is imported late, counts too."""
    from headrace.testing.broker import BrokerThread

    ready, gone = [], []
    for _ in range(count):
        began = time.perf_counter()
        broker = BrokerThread(memory=True).start()
        ready.append(time.perf_counter() - began)
        began = time.perf_counter()
        broker.stop()
        gone.append(time.perf_counter() - began)
    return {
        "ready ms": median(ready) * 1000,
        "ready at most ms": max(ready) * 1000,
        "stopped ms": median(gone) * 1000,
    }


if __name__ == "__main__":
    print(json.dumps(rounds(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)))
