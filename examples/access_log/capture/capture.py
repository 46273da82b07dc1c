"""Capture an access log from a real nginx under mixed traffic: `python -m … OUT --seconds 2070`.

Needs `nginx` on PATH; listens on free loopback ports only; leaves `OUT/access.log` and nothing
running. `pack.py` makes from it what the demo ships.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import socket
import subprocess
from pathlib import Path

from examples.access_log.capture import website
from examples.access_log.capture.traffic import Town
from examples.access_log.capture.upstream import Application


def main() -> None:
    """Read the command line and run one capture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=2070)
    parser.add_argument("--seed", type=int, default=20261120)
    args = parser.parse_args()
    os.nice(5)
    asyncio.run(_capture(args.out.resolve(), args.seconds, args.seed))


async def _capture(out: Path, seconds: float, seed: int) -> None:
    application = await asyncio.start_server(Application(seed).serve, "127.0.0.1", 0)
    upstream_port = application.sockets[0].getsockname()[1]
    port = _free_port()
    server = _start_nginx(out, port, upstream_port)
    try:
        await _until_open(port)
        await Town(("127.0.0.1", port), seconds, seed).run()
    finally:
        server.terminate()
        server.wait()
        application.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _start_nginx(out: Path, port: int, upstream_port: int) -> subprocess.Popen[bytes]:
    (out / "tmp").mkdir(parents=True, exist_ok=True)
    for folder in (out, out / "tmp"):
        folder.chmod(0o755)
    website.build(out / "site")
    template = Path(__file__).with_name("nginx.conf").read_text()
    conf = out / "nginx.conf"
    conf.write_text(template.format(root=out, port=port, upstream_port=upstream_port))
    program = shutil.which("nginx") or "/usr/sbin/nginx"
    return subprocess.Popen([program, "-c", str(conf)])


async def _until_open(port: int) -> None:
    for _ in range(100):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.05)
        else:
            writer.close()
            return
    raise SystemExit("nginx did not start: see error.log")


if __name__ == "__main__":
    main()
