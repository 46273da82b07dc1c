"""Machines that are none: network namespaces with an address each, one router between them.

Everything is made inside namespaces of network, mounts and processes that belong to this run alone
(`enclosed`). With the last process in them the kernel takes all of it away: names, mounts, links
and processes that were left. What is cut is dropped by the router, in silence and by direction.
"""

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.support.processes.process import Host

ROUTER = "chaos-router"
CLIENTS = "10.77.0.2"
"""The address of the process that makes the network, and of those it starts without a host."""
SLOW = "tbf rate 256kbit burst 16kb latency 400ms"


class NoNamespaces(Exception):
    """They cannot be made here; says why."""


def enclosed(command: Sequence[str]) -> list[str]:
    """Return `command` as it runs in namespaces of its own. NoNamespaces."""
    for program in ("unshare", "nsenter", "ip", "tc", "mount"):
        if shutil.which(program) is None:
            raise NoNamespaces(f"no program {program}: install util-linux and iproute2")
    within = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if os.geteuid() != 0:
        within += ["--user", "--map-root-user"]
    tried = subprocess.run([*within, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        raise NoNamespaces(f"{tried.stderr.strip()}: root or user namespaces are needed")
    return [*within, *command]


class Network:
    """The router and its hosts; this process is one of them, `CLIENTS`."""

    def __init__(self, names: Iterable[str]) -> None:
        """Make them all. NoNamespaces."""
        # Never over the /run of a machine that others use.
        if os.getpid() != 1:
            raise NoNamespaces("not in namespaces of its own")
        _run("mount -t tmpfs tmpfs /run")
        Path("/run/netns").mkdir()
        _run(f"ip netns add {ROUTER}")
        _run("ip link set lo up")
        _run(f"ip link add name eth0 type veth peer name to-clients netns {ROUTER}")
        self._connect("clients", "10.77.0", ())
        self.hosts = {name: self._host(name, number) for number, name in enumerate(names, 1)}
        self._at_router("sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward'")
        self._cut: list[str] = []
        self._slow: list[str] = []

    def _host(self, name: str, number: int) -> Host:
        space = f"chaos-{name}"
        _run(f"ip netns add {space}")
        link = f"link add name to-{name} type veth peer name eth0 netns {space}"
        _run(f"ip -netns {ROUTER} {link}")
        return self._connect(name, f"10.77.{number}", _entering(space))

    def _connect(self, name: str, net: str, within: tuple[str, ...]) -> Host:
        """Give both ends of a link their addresses."""
        self._at_router(f"ip address add {net}.1/30 dev to-{name}")
        self._at_router(f"ip link set to-{name} up")
        for text in (
            "ip link set lo up",
            f"ip address add {net}.2/30 dev eth0",
            "ip link set eth0 up",
            f"ip route add default via {net}.1",
        ):
            _run(text, within)
        return Host(f"{net}.2", within)

    def cut_way(self, source: str, target: str) -> None:
        """Drop what goes from the one address to the other, until `heal`."""
        rule = f"blackhole from {source} to {target}"
        self._at_router(f"ip rule add {rule}")
        self._cut.append(rule)

    def cut(self, source: str, target: str) -> None:
        """Drop what goes between two addresses in either direction, until `heal`."""
        self.cut_way(source, target)
        self.cut_way(target, source)

    def slow(self, name: str) -> None:
        """Leave a host 256 kbit/s in each direction, until `heal`."""
        host = self.hosts[name]
        self._at_router(f"tc qdisc add dev to-{name} root {SLOW}")
        _run(f"tc qdisc add dev eth0 root {SLOW}", host.within)
        self._slow.append(name)

    def heal(self) -> None:
        """Have everything arrive again."""
        while self._cut:
            self._at_router(f"ip rule del {self._cut.pop()}")
        while self._slow:
            name = self._slow.pop()
            self._at_router(f"tc qdisc del dev to-{name} root")
            _run("tc qdisc del dev eth0 root", self.hosts[name].within)

    @staticmethod
    def _at_router(text: str) -> None:
        _run(text, _entering(ROUTER))


def _entering(space: str) -> tuple[str, ...]:
    return ("nsenter", f"--net=/run/netns/{space}")


def _run(text: str, within: tuple[str, ...] = ()) -> None:
    """Run a program of the system. NoNamespaces."""
    done = subprocess.run(
        [*within, *shlex.split(text)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise NoNamespaces(f"`{text}` failed: {done.stderr.strip()}")
