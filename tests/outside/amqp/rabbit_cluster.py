"""Three nodes of RabbitMQ 4.3 that are one cluster, on the loopback or on hosts of their own."""

import json
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from bench.process_tree import cpu_seconds, named, process_tree
from tests.outside.amqp.address import Address, answers
from tests.outside.amqp.peer import RABBITMQ_4_3, RabbitMQ, prepared
from tests.support.processes.process import (
    LOOPBACK,
    Host,
    StartsAndStops,
    free_port,
    wait_or_kill,
)

NODES = 3
JOIN_SECONDS_MAX = 120.0
_AS_RABBITMQ = "setpriv --reuid rabbitmq --regid rabbitmq --clear-groups --pdeathsig KILL"
_EPMD = f"""
exec chroot "$ROOT" {_AS_RABBITMQ} epmd -address $ERL_EPMD_ADDRESS -port $ERL_EPMD_PORT
"""


class Member(RabbitMQ):
    """A node of a cluster; all have one cookie, and find each other by one port of epmd."""

    def __init__(self, root: Path, host: Host, epmd_port: int, cookie: str) -> None:
        super().__init__(root, host)
        self.settings["loopback_users"] = "none"
        self.epmd_port = epmd_port
        self._cookie = cookie

    @property
    def node(self) -> str:
        return f"rabbit{self.address.port}@{self._name_of_host}"

    @property
    def _name_of_host(self) -> str:
        return "localhost" if self.host == LOOPBACK else self.host.address

    @property
    def environment(self) -> dict[str, str]:
        names = {} if self.host == LOOPBACK else {"RABBITMQ_USE_LONGNAME": "true"}
        return {**super().environment, **names}

    def write_files(self, place: Path) -> None:
        super().write_files(place)
        cookie = place / ".erlang.cookie"
        cookie.write_text(self._cookie)
        cookie.chmod(0o400)

    def know(self, members: Sequence["Member"]) -> None:
        """Have it join these when it starts for the first time."""
        self.settings["cluster_formation.peer_discovery_backend"] = "classic_config"
        for number, member in enumerate(members, 1):
            self.settings[f"cluster_formation.classic_config.nodes.{number}"] = member.node

    @property
    def machine(self) -> list[int]:
        """The process ids of its Erlang machine."""
        return named(process_tree(self.process_id), "beam.smp")

    def control(self, *words: str) -> str:
        """Return what rabbitmqctl prints. RuntimeError: it failed."""
        try:
            done = self.run_tool("rabbitmqctl", "-n", self.node, "-q", *words)
        except subprocess.TimeoutExpired as error:
            raise RuntimeError(f"rabbitmqctl {words[0]} does not end") from error
        if done.returncode:
            raise RuntimeError(f"rabbitmqctl {words[0]}: {(done.stderr or done.stdout)[-1000:]}")
        return done.stdout


class RabbitMQCluster(StartsAndStops):
    """Nodes 0 to 2, each on one of `hosts` if they are given."""

    name = "rabbitmq"

    def __init__(self, hosts: Sequence[Host] = ()) -> None:
        root = prepared(release=RABBITMQ_4_3)
        cookie, self._epmd_port = secrets.token_hex(16), free_port()
        self.nodes = [
            Member(root, host, self._epmd_port, cookie) for host in hosts or [LOOPBACK] * NODES
        ]
        for node in self.nodes:
            node.know(self.nodes)
        self._undo = ExitStack()

    @property
    def addresses(self) -> list[Address]:
        """Where each node listens for AMQP."""
        return [node.address for node in self.nodes]

    def start(self) -> None:
        with ExitStack() as undo:
            if all(node.host == LOOPBACK for node in self.nodes):
                # The nodes' own would end with the node that is started first.
                self._start_epmd(undo)
            for node in self.nodes:
                undo.callback(node.stop)
                node.launch()
            for node in self.nodes:
                node.until_answers()
            self.until_joined()
            self._undo = undo.pop_all()

    def _start_epmd(self, undo: ExitStack) -> None:
        root = self.nodes[0].root
        environment = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "ROOT": str(root),
            "ERL_EPMD_ADDRESS": "127.0.0.1", "ERL_EPMD_PORT": str(self._epmd_port),
        }  # fmt: skip
        mapper = subprocess.Popen(["sh", "-c", _EPMD], env=environment)
        undo.callback(wait_or_kill, mapper, 10)
        undo.callback(mapper.terminate)

    def until_joined(self) -> None:
        """Return when each node that runs names all of them as running. RuntimeError."""
        deadline = time.monotonic() + JOIN_SECONDS_MAX
        while True:
            running: list[str] = []
            with suppress(RuntimeError, json.JSONDecodeError):
                said = self.nodes[0].control("cluster_status", "--formatter", "json")
                running = json.loads(said)["running_nodes"]
            if len(running) == len(self.nodes):
                return
            if time.monotonic() > deadline:
                raise RuntimeError(f"nodes of the cluster that run: {running}")

    def stop(self) -> None:
        self._undo.close()

    def leader(self, queue: str) -> int:
        """Return the number of the node that leads a queue of the default vhost. RuntimeError."""
        return [one.node for one in self.nodes].index(self._told(queue, "leader"))

    def online(self, queue: str) -> list[str]:
        """Return the names of the nodes that have a member of a queue online. RuntimeError."""
        return list(self._told(queue, "online"))

    def _told(self, queue: str, column: str) -> Any:
        for node in self.nodes:
            with suppress(RuntimeError, ValueError):
                rows = json.loads(
                    node.control("list_queues", "name", column, "--formatter", "json")
                )
                (found,) = [row[column] for row in rows if row["name"] == queue]
                return found
        raise RuntimeError(f"no node names the {column} of {queue}")

    def kill(self, number: int) -> None:
        """End a node as a crash would."""
        self.nodes[number].kill()

    def restart(self, number: int) -> None:
        """Start a node that was killed; returns when it answers."""
        self.nodes[number].start()

    def pause(self, number: int) -> None:
        """Make a node stand still, its connections open."""
        self._signal(number, signal.SIGSTOP)

    def resume(self, number: int) -> None:
        """Let a node go on."""
        self._signal(number, signal.SIGCONT)

    def _signal(self, number: int, which: signal.Signals) -> None:
        for process_id in self.nodes[number].machine:
            os.kill(process_id, which)

    def missing(self) -> list[str]:
        """Name the nodes that do not answer: with them the cluster is whole."""
        return [f"{node.node} does not answer" for node in self.nodes if not answers(node.address)]

    def cpu_seconds(self) -> float:
        """CPU time of all nodes so far."""
        return sum(cpu_seconds(process_tree(node.process_id)) for node in self.nodes)

    @property
    def output(self) -> str:
        """The output of all nodes."""
        return "\n".join(f"{node.node}:\n{node.output}" for node in self.nodes)
