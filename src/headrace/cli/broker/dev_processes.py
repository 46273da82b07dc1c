"""`headrace dev --processes N`: brokers in processes of their own, with a ZooKeeper.

The ZooKeeper is the one in pyspark's jars: a single server, on this machine only. Brokers can be
killed and paused one by one, as in production.
"""

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from headrace.cli.broker.dev_listeners import HOST, other_ports, own_settings
from headrace.client.sync import connect, run
from headrace.terminal.failure import EXIT_FAILED, CommandError, UsageError
from headrace.terminal.output import Cell, note, print_table

PROCESSES_MAX = 9
START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 30.0
_MAIN = "org.apache.zookeeper.server.ZooKeeperServerMain"
_ANOTHER = (
    "start one (docker run -p 2181:2181 zookeeper:3.9) and brokers with"
    " headrace serve --set zookeeper.connect=127.0.0.1:2181; headrace dev --brokers 3 needs no"
    " ZooKeeper"
)


def find_zookeeper() -> tuple[str, str]:
    """Return the Java executable and the class path that start a ZooKeeper; else CommandError."""
    spec = importlib.util.find_spec("pyspark")  # found, not imported: that takes a while
    jars = None if spec is None or spec.origin is None else Path(spec.origin).parent / "jars"
    if jars is None or not any(jars.glob("zookeeper-[0-9]*.jar")):
        raise CommandError(f"--processes: pyspark's jars contain no ZooKeeper: {_ANOTHER}")
    from headrace.model.errors import HeadraceError
    from headrace.spark.sessions.java import find_java

    try:
        java = find_java()
    except HeadraceError as error:
        raise CommandError(f"--processes: ZooKeeper needs Java ({error}): {_ANOTHER}") from None
    return str(java.home / "bin" / "java"), f"{jars}/*"


def run_processes(
    count: int,
    place: Path,
    port: int,
    asked: Mapping[str, int | None],
    given: Mapping[str, str],
    *,
    quiet: bool,
) -> int:
    """Run a ZooKeeper and `count` brokers until Ctrl-C. Raises CommandError or UsageError.

    `asked`: by flag, the first broker's ports of other protocols, as `other_ports` has them.
    """
    if not 1 <= count <= PROCESSES_MAX:
        raise UsageError(f"--processes {count}: must be 1 to {PROCESSES_MAX}")
    others = {
        listener: [number or _free_port() for number in numbers]
        for listener, numbers in other_ports(count, port, asked).items()
    }
    found = find_zookeeper()
    with ExitStack() as undo:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        address, zookeeper = _start_zookeeper(found, place)
        undo.callback(_end, [zookeeper])
        ports = [port + number if port else _free_port() for number in range(count)]
        brokers = [
            _start_broker(
                number,
                address,
                place,
                count,
                {**given, **own_settings(number, ports[number - 1], others, given)},
            )
            for number in range(1, count + 1)
        ]
        undo.callback(_end, brokers)
        for number, broker in enumerate(brokers):
            _await(broker, f"broker {number + 1}", _listens, ports[number])
        for number, broker in enumerate(brokers):
            _await(broker, f"broker {number + 1}", _shows, ports[number], count)
        if not quiet:
            _print_addresses(ports, others, [*brokers, zookeeper], address)
            note("kill -9 PID kills a broker, kill -STOP and -CONT pause it; Ctrl-C ends all")
        try:
            while any(broker.poll() is None for broker in brokers):
                time.sleep(0.2)
        except KeyboardInterrupt:
            return 0
    raise CommandError("all brokers have ended", EXIT_FAILED)


def _print_addresses(
    ports: Sequence[int],
    others: Mapping[str, Sequence[int]],
    processes: "Sequence[subprocess.Popen[bytes]]",
    zookeeper: str,
) -> None:
    """Print a row for each process; the last one is ZooKeeper, at address `zookeeper`."""
    rows: list[list[Cell]] = [
        [
            str(number + 1),
            *(f"{HOST}:{of_protocol[number]}" for of_protocol in (ports, *others.values())),
            processes[number].pid,
        ]
        for number in range(len(ports))
    ]
    rows.append(["ZooKeeper", zookeeper, *["-"] * len(others), processes[-1].pid])
    print_table(["BROKER", "ADDRESS", *others, "PID"], rows)


def _start_zookeeper(found: tuple[str, str], place: Path) -> "tuple[str, subprocess.Popen[bytes]]":
    port = _free_port()
    data = place / "zookeeper"
    data.mkdir(parents=True, exist_ok=True)
    configuration = data / "zoo.cfg"
    configuration.write_text(
        f"tickTime=2000\ndataDir={data}\nclientPort={port}\nclientPortAddress={HOST}\n"
        "admin.enableServer=false\nmaxClientCnxns=0\n"
    )
    java, jars = found
    words = [java, "-Xmx128m", "-cp", jars, _MAIN, str(configuration)]
    with (place / "zookeeper.log").open("ab") as out:
        process = _started(words, out.fileno())
    _await(process, f"ZooKeeper (its log is {place / 'zookeeper.log'})", _listens, port)
    return f"{HOST}:{port}", process


def _start_broker(
    number: int, zookeeper: str, place: Path, count: int, given: Mapping[str, str]
) -> "subprocess.Popen[bytes]":
    copies = str(min(3, count))
    settings = {
        "zookeeper.connect": zookeeper,
        "zookeeper.session.timeout.ms": "6000",  # the time until a killed broker is declared dead
        "broker.id": str(number),
        "log.dirs": str(place / f"broker{number}"),
        "default.replication.factor": copies,
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        **given,
    }
    words = [sys.executable, "-m", "headrace.cli.main", "serve", "-q"]
    for key, value in settings.items():
        words += ["--set", f"{key}={value}"]
    return _started(words, None)


def _started(words: Sequence[str], out: int | None) -> "subprocess.Popen[bytes]":
    # A session of its own: Ctrl-C reaches only this process, which ends the others in order.
    return subprocess.Popen(  # noqa: S603 - our own words
        words, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
    )


def _await(
    process: "subprocess.Popen[bytes]", what: str, holds: Callable[..., bool], *of: int
) -> None:
    """Wait until `holds(*of)`; CommandError if the process ends or that takes too long."""
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline and process.poll() is None:
        if holds(*of):
            return
        time.sleep(0.05)
    raise CommandError(f"{what} did not start")


def _listens(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), timeout=1).close()
    except OSError:
        return False
    return True


def _shows(port: int, count: int) -> bool:
    """Return whether a broker shows clients so many brokers: replicated topics need them."""
    with connect(f"{HOST}:{port}", patient=True) as client:
        return len(run(client.metadata([])).brokers) >= count


def _end(processes: "Sequence[subprocess.Popen[bytes]]") -> None:
    """Stop processes, paused ones included; kill those that do not end in time."""
    for process in processes:
        if process.poll() is None:
            process.terminate()
            os.kill(process.pid, signal.SIGCONT)
    deadline = time.monotonic() + STOP_SECONDS_MAX
    for process in processes:
        try:
            process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind((HOST, 0))
        found: int = free.getsockname()[1]
        return found
