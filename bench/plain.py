"""What the kernel alone gives: files to a socket by sendfile, nothing asked and nothing checked.

The bound of every consumer's row: the same bytes from the same page cache, over the same loopback,
to the same kind of reader.

`python -m bench.plain FILE...` prints a port and sends the files to whoever connects, once.
"""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench.rawload import Load, connect

SENDFILE_BYTES_MAX = 0x7FFFF000
"""What Linux takes at most in one call."""


def files_of(directory: Path, topic: str) -> list[Path]:
    """The segments of partition 0 of a topic below a broker's log directory, in order."""
    return sorted(directory.glob(f"log/{topic}-0/*.log"))


def receive(files: Sequence[Path], buffer_bytes: int) -> Load:
    """Have a process of its own send the files, and read them as `rawload.fetch` does."""
    into = memoryview(bytearray(buffer_bytes))
    command = [sys.executable, "-m", "bench.plain", *map(str, files)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as sender:
        if sender.stdout is None:
            raise RuntimeError("no output")
        port = int(sender.stdout.readline())
        with connect(f"127.0.0.1:{port}") as link:
            moved = filled = 0
            started = time.monotonic()
            while got := link.recv_into(into[filled:]):
                moved += got
                filled = (filled + got) % buffer_bytes
            elapsed = time.monotonic() - started
    expected = sum(path.stat().st_size for path in files)
    if moved != expected:
        raise AssertionError(f"{moved} bytes of {expected} came")
    return Load(1, moved / 1e6, elapsed)


def send(link: socket.socket, path: str) -> None:
    """The whole file."""
    with open(path, "rb") as file:
        left = os.fstat(file.fileno()).st_size
        at = 0
        while left:
            sent = os.sendfile(link.fileno(), file.fileno(), at, min(left, SENDFILE_BYTES_MAX))
            at += sent
            left -= sent


def main() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        print(server.getsockname()[1], flush=True)
        link, _ = server.accept()
        with link:
            for path in sys.argv[1:]:
                send(link, path)


if __name__ == "__main__":
    main()
