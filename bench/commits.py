"""OffsetCommit requests, as many as go: raw sockets, a group each, one partition a request.

python -m bench.commits BOOTSTRAP TOPIC prints one JSON object.
"""

import argparse
import json
import struct
import time

from bench.rawload import (
    LENGTH,
    SETTLE_SECONDS_MAX,
    Load,
    Pipe,
    connect,
    drive,
    frame,
    receive,
    string,
)

COMMIT, COMMIT_VERSION = 8, 7
FETCH, FETCH_VERSION = 9, 1
OFFSET = 4711
NOT_YET = {14, 15, 16}
"""Error codes of a coordinator that is being made or loaded."""
CONNECTIONS, IN_FLIGHT = 4, 32


def commit_frame(group: str, topic: str) -> bytes:
    """An OffsetCommit v7 request of one offset, as a consumer without membership sends it."""
    head = string(group) + LENGTH.pack(-1) + string("") + struct.pack(">h", -1)
    offset = struct.pack(">iqi", 0, OFFSET, -1) + string("")
    topics = LENGTH.pack(1) + string(topic) + LENGTH.pack(1) + offset
    return frame(COMMIT, COMMIT_VERSION, head + topics)


def answer_bytes(topic: str) -> int:
    """Size of the answer to it, length included."""
    return 4 + 4 + 4 + 4 + len(string(topic)) + 4 + 4 + 2


def ready(bootstrap: str, group: str, topic: str) -> None:
    """Commit once, as soon as the group's coordinator takes it."""
    deadline = time.monotonic() + SETTLE_SECONDS_MAX
    with connect(bootstrap) as link:
        while True:
            # Asking for the coordinator has the groups' topic made.
            link.sendall(frame(10, 0, string(group)))
            receive(link, memoryview(bytearray(1 << 16)))
            link.sendall(commit_frame(group, topic))
            answer = receive(link, memoryview(bytearray(1 << 16)))
            (error,) = struct.unpack_from(">h", answer, len(answer) - 2)
            if error == 0:
                return
            if error not in NOT_YET or time.monotonic() > deadline:
                raise AssertionError(f"OffsetCommit: error {error}")
            time.sleep(0.1)


def committed(bootstrap: str, group: str, topic: str) -> int:
    """The group's offset, by OffsetFetch v1."""
    body = string(group) + LENGTH.pack(1) + string(topic) + LENGTH.pack(1) + LENGTH.pack(0)
    with connect(bootstrap) as link:
        link.sendall(frame(FETCH, FETCH_VERSION, body))
        answer = receive(link, memoryview(bytearray(1 << 16)))
    at = 4 + 4 + len(string(topic)) + 4 + 4
    (offset,) = struct.unpack_from(">q", answer, at)
    return int(offset)


def commit(bootstrap: str, topic: str, seconds: float) -> Load:
    """Pipelined commits over several connections, each of a group of its own."""
    groups = [f"{topic}-group-{number}" for number in range(CONNECTIONS)]
    for group in groups:
        ready(bootstrap, group, topic)
    pipes = [
        Pipe(bootstrap, commit_frame(group, topic), answer_bytes(topic), IN_FLIGHT)
        for group in groups
    ]
    elapsed = drive(pipes, seconds)
    for group in groups:
        if (found := committed(bootstrap, group, topic)) != OFFSET:
            raise AssertionError(f"{group} has committed {found}, not {OFFSET}")
    return Load(sum(pipe.answered for pipe in pipes), 0.0, elapsed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    parser.add_argument("--seconds", type=float, default=4)
    given = parser.parse_args()
    load = commit(given.bootstrap, given.topic, given.seconds)
    print(json.dumps({"requests/s": load.requests_per_second}))


if __name__ == "__main__":
    main()
