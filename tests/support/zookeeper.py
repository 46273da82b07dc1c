"""A real ZooKeeper: one server or three, to be started, stopped, paused and killed."""

import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from tests.outside.kafka_reads_our_files.jvm import QUICK, libraries
from tests.support.processes.process import LOOPBACK, Host, StartsAndStops, free_port

PROJECT = Path(__file__).with_name("zookeeper-3.9")
MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
START_SECONDS_MAX = 60.0
TICK_MS = 400
"""ZooKeeper's unit of time: sessions end a tick late at most."""


class ZooKeeperServer:
    """One server, in a directory of its own."""

    def __init__(self, place: Path, number: int, host: Host = LOOPBACK) -> None:
        """`number` is its id in the ensemble, from 1."""
        self.place = place
        self.host = host
        self.number = number
        self.client_port = free_port()
        self.quorum_port = free_port()
        self.election_port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"{self.host.address}:{self.client_port}"

    @property
    def line(self) -> str:
        """Its line in the configuration of an ensemble."""
        return f"server.{self.number}={self.host.address}:{self.quorum_port}:{self.election_port}"

    def start(self, servers: "list[ZooKeeperServer]") -> None:
        """Start the process as one of `servers`; `wait` until it serves."""
        data = self.place / "data"
        data.mkdir(parents=True, exist_ok=True)
        (data / "myid").write_text(f"{self.number}\n")
        lines = [
            f"tickTime={TICK_MS}", "initLimit=50", "syncLimit=10", f"dataDir={data}",
            f"clientPort={self.client_port}", f"clientPortAddress={self.host.address}",
            "maxClientCnxns=0",
            "minSessionTimeout=400", "maxSessionTimeout=60000", "admin.enableServer=false",
            "4lw.commands.whitelist=*", "forceSync=no",
            "authProvider.1=org.apache.zookeeper.server.auth.DigestAuthenticationProvider",
        ]  # fmt: skip
        if len(servers) > 1:
            lines += [server.line for server in servers]
        config = self.place / "zoo.cfg"
        config.write_text("\n".join(lines) + "\n")
        command = [
            *self.host.within, "java", "-Xmx128m", *QUICK,
            f"-Dlogback.configurationFile={PROJECT / 'logback.xml'}",
            "-cp", libraries(PROJECT), MAIN, str(config),
        ]  # fmt: skip
        with (self.place / "output.log").open("ab") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out, cwd=self.place)

    def wait(self) -> None:
        """Return when it serves clients."""
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline:
            if self.process is None or self.process.poll() is not None:
                break
            if "Mode:" in self.ask("srvr"):
                return
            time.sleep(0.05)
        text = (self.place / "output.log").read_text(errors="replace")
        raise AssertionError(f"ZooKeeper {self.number} does not serve:\n{text[-3000:]}")

    def ask(self, word: str) -> str:
        """What it answers to one of its four-letter words; nothing where it does not listen."""
        try:
            at = (self.host.address, self.client_port)
            with socket.create_connection(at, timeout=5) as probe:
                probe.sendall(word.encode())
                found = b""
                while more := probe.recv(65536):
                    found += more
                return found.decode()
        except OSError:
            return ""

    def pause(self) -> None:
        """Make it stand still, its connections open. Returns when all of its threads do."""
        self._signal(signal.SIGSTOP)
        while self.process is not None and self.process.poll() is None and self._moves():
            time.sleep(0.002)

    def _moves(self) -> bool:
        assert self.process is not None
        tasks = Path(f"/proc/{self.process.pid}/task")
        states = {(task / "stat").read_text().rpartition(") ")[2][0] for task in tasks.iterdir()}
        return not states <= {"T", "Z"}

    def resume(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    def stop(self) -> None:
        """End it cleanly."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it as a crash would."""
        self._end(signal.SIGKILL)

    def _signal(self, which: signal.Signals) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(which)

    def _end(self, how: signal.Signals) -> None:
        self.resume()
        self._signal(how)
        process, self.process = self.process, None
        if process is not None:
            process.wait(30)


class ZooKeeper(StartsAndStops):
    """An ensemble of `count` servers, its data below `place`; on `hosts`, where they are given."""

    def __init__(self, place: Path, count: int = 1, hosts: Sequence[Host] = ()) -> None:
        self.servers = [
            ZooKeeperServer(place / f"zk-{number}", number, host)
            for number, host in enumerate(hosts or [LOOPBACK] * count, 1)
        ]

    @property
    def hosts(self) -> str:
        """All servers, as in `zookeeper.connect`."""
        return ",".join(server.address for server in self.servers)

    def start(self) -> None:
        try:
            for server in self.servers:
                server.start(self.servers)
            for server in self.servers:
                server.wait()
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        for server in self.servers:
            server.stop()

    def kill(self) -> None:
        """End all as a crash would."""
        for server in self.servers:
            server.kill()

    def pause(self) -> None:
        """Make all stand still."""
        for server in self.servers:
            server.pause()

    def resume(self) -> None:
        """Let all go on."""
        for server in self.servers:
            server.resume()

    def leader(self) -> ZooKeeperServer:
        """The server that leads the others, or the only one."""
        (found,) = (
            server
            for server in self.servers
            if any(mode in server.ask("srvr") for mode in ("Mode: leader", "Mode: standalone"))
        )
        return found
