"""Hosts that are namespaces: what is cut does not arrive, what is healed does, nothing stays."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos import __main__ as chaos
from tests.chaos.namespaces import NoNamespaces, enclosed

ROOT = Path(__file__).parents[2]
PLAY = """
import subprocess, sys
from tests.chaos.namespaces import CLIENTS, Network

LISTEN = '''
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
    own.bind(("", 9))
    own.settimeout(float(sys.argv[1]))
    print("ready", flush=True)
    print(own.recv(9).decode())
'''
SEND = '''
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
    own.sendto(b"arrived", (sys.argv[1], 9))
'''

def arrives(source, target, seconds):
    listen = [*target.within, sys.executable, "-c", LISTEN, str(seconds)]
    with subprocess.Popen(listen, stdout=-1, stderr=-3, text=True) as listening:
        assert listening.stdout.readline() == "ready\\n"
        subprocess.run([*source.within, sys.executable, "-c", SEND, target.address], check=True)
        return "arrived" in listening.stdout.read()

network = Network(["a", "b"])
a, b = network.hosts.values()
assert arrives(a, b, 20)
network.cut_way(a.address, b.address)
assert not arrives(a, b, 1), "cut from a to b"
assert arrives(b, a, 20), "the other direction is open"
network.cut(b.address, CLIENTS)
network.slow("a")
network.heal()
assert arrives(a, b, 20), "healed"
"""


def test_a_cut_drops_what_goes_one_way_until_it_is_healed() -> None:
    try:
        command = enclosed([sys.executable, "-c", PLAY])
    except NoNamespaces as error:
        pytest.skip(str(error))
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    left = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    assert "chaos-" not in left.stdout


def test_a_machine_without_namespaces_is_told_of_in_one_line_and_nothing_holds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(chaos, "libraries", lambda _: "")
    monkeypatch.setenv("PATH", "")
    assert not chaos.three_brokers(10, 1, [])
    (line,) = capsys.readouterr().out.splitlines()
    assert line == (
        "chaos: three brokers cannot be run here: no program unshare: install util-linux and "
        "iproute2"
    )
