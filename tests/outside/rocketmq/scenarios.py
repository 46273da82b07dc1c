"""The matrix's scenarios: a program of each client plays one, with a topic of its own.

The programs are in java, go, cpp and node, and know each scenario by its row's name. Maven, Go's
proxy, pip and npm fetch the clients the first time.
"""

import functools
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from headrace.wire.rocketmq.codes import RequestCode, ResponseCode
from tests.outside.kafka_tools import programs
from tests.outside.matrix.scenario import Play, Scenario, Skipped
from tests.outside.rocketmq.address import Address
from tests.outside.rocketmq.jvm import JVM, compiled, has_maven, libraries
from tests.outside.rocketmq.known import LACKING
from tests.support.cluster.broker_cluster import until
from tests.support.rocketmq.client import RemotingClient
from tests.support.rocketmq.kit import code, made, retried_at_most

PLACE = Path(__file__).parent
SECONDS_MAX = 170
JAVA_SOURCES = ("Kit.java", "Sending.java", "Consuming.java", "Held.java", "Scenarios.java")
CPP_CLIENT = "rocketmq==0.4.4"
QUEUES = 4
ROWS = {
    "sync-send": "a sync send is stored and answered with its offset",
    "async-send": "each async send calls back and is stored",
    "one-way-send": "one-way sends are stored",
    "batch-send": "each message of a batch is stored with its tag",
    "push": "a push consumer gets keys, tags and properties, and is woken",
    "pull": "a pull consumer reads queues from offsets of its own",
    "lite-pull": "a lite pull consumer polls each message",
    "orderly": "an orderly consumer gets a queue's messages in order",
    "shared-group": "members of a group share the queues",
    "returning-group": "a group that returns continues at its offsets",
    "retries": "a message that fails is retried, then is a dead letter",
    "tags": "a filter by tags delivers these tags alone",
    "sql92": "a filter by SQL92 is evaluated by the broker",
    "delays": "a delayed message is delivered at its time",
    "recall": "a recalled message is not delivered",
    "transactions": "transactions are committed, rolled back and checked",
    "broadcasting": "each member of a broadcasting group gets each message",
    "request-reply": "a request is answered by a consumer",
    "tls": "messages are sent and consumed over TLS",
    "namespaces": "clients of a namespace have topics of their own",
    "trace-off": "clients with message trace off write no traces",
}
"""Rows of the matrix, each with the claim of its scenario."""
UNCREATED = ("c++", "ali-ons")
"""Clients that create no topic by sending to it: they do not ask for the route of TBW102."""
_FAULT = re.compile(r"BROKEN|Error|Exception|panic")
ONE_RETRY = "c++"
"""A client whose consumers cannot set a limit of retries: the operator sets it to one."""


def installed(prepare: Callable[[], list[str]]) -> list[str]:
    """Return the command that `prepare` makes. Skipped if its language is not installed."""
    try:
        return prepare()
    except programs.NotInstalled as missing:
        raise Skipped(str(missing)) from missing


def java_program(version: str) -> list[str]:
    """Return the command of a version of the Java client, compiled."""
    if not has_maven():
        raise programs.NotInstalled("Maven or a JDK is not installed")
    classes = Path(tempfile.mkdtemp(prefix="headrace-rocketmq-classes-"))
    path = compiled(classes, libraries(version), *JAVA_SOURCES)
    return [*JVM, "-cp", path, "Scenarios"]


def cpp_program() -> list[str]:
    """Return the command of the C++ client, fetched by pip if it is missing."""
    folder = PLACE / "cpp" / "target" / CPP_CLIENT
    if not folder.exists():
        # Under another name until it is complete.
        part = folder.with_name("fetching")
        install = ["install", "--quiet", "--no-deps", "--target", str(part), CPP_CLIENT]
        subprocess.run([sys.executable, "-m", "pip", *install], check=True, timeout=300)
        part.rename(folder)
    paths = f"import sys; sys.path.insert(0, {str(folder)!r}); sys.argv.pop(0); import runpy; "
    run = f"runpy.run_path({str(PLACE / 'cpp' / 'scenarios.py')!r}, run_name='__main__')"
    return [sys.executable, "-c", paths + run, "scenarios.py"]


PROGRAMS: dict[str, Callable[[], list[str]]] = {
    "java 5.5.0": functools.cache(lambda: java_program("5.5.0")),
    "java 4.9.7": functools.cache(lambda: java_program("4.9.7")),
    "go": functools.cache(lambda: programs.go_program(PLACE / "go")),
    "c++": functools.cache(cpp_program),
    "ali-ons": functools.cache(lambda: programs.node_program(PLACE / "node")),
}
"""By client: what makes its command."""


def routed(address: Address, topic: str) -> None:
    """Wait until the name server has the route of a topic: a broker registers it behind the
    answer to its creation."""
    with RemotingClient(address.name_server) as names:
        until(
            lambda: (
                code(names.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}))
                is ResponseCode.SUCCESS
            ),
            f"a route of {topic}",
        )


def _plays(client: str, prepare: Callable[[], list[str]], row: str) -> Play:
    """Return what plays a row's scenario by a client's program."""

    def _play(address: Address) -> None:
        command = installed(prepare)
        topic = re.sub("[^a-z0-9-]", "", f"{client}-{row}-{os.getpid()}")
        with RemotingClient(address.broker) as operator:
            if client in UNCREATED:
                for name in (topic, f"INST%{topic}") if row == "namespaces" else (topic,):
                    routed(address, made(operator, name, QUEUES))
            if client == ONE_RETRY and row == "retries":
                retried_at_most(operator, f"CG_retries_{topic}", 1)
        if row == "tls":
            command = [command[0], "-Dtls.enable=true", *command[1:]]
        with tempfile.TemporaryDirectory(prefix="headrace-rocketmq-home-") as home:
            if command[0] == "java":
                command = [command[0], f"-Duser.home={home}", *command[1:]]
            done = subprocess.run(
                [*command, address.names, row, topic],
                capture_output=True, text=True, timeout=SECONDS_MAX, check=False,
                env=os.environ | {"HOME": home}, cwd=home,
            )  # fmt: skip
        said = done.stdout + done.stderr
        assert f"HOLDS {row}" in done.stdout.splitlines(), fault(said) or said[-2000:]

    return _play


def fault(said: str) -> str:
    """Return the line of a program's output that names its failure, or nothing."""
    return next((line for line in said.splitlines() if _FAULT.search(line)), "")


SCENARIOS = [
    Scenario(client, row, claim, _plays(client, prepare, row))
    for client, prepare in PROGRAMS.items()
    for row, claim in ROWS.items()
    if (client, row) not in LACKING
]
