"""The programs that are recorded: RocketMQ's clients, and the recorder's own.

Each plays its scenarios against the broker behind a recorder, and names them as the golden
recording does.
"""

import csv
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from headrace.wire.rocketmq.codes import RequestCode
from headrace.wire.rocketmq.message_ids import physical_offset_of
from tests.outside.rocketmq.golden.recording import REQUEST, Address, Entry, Recorder
from tests.outside.rocketmq.golden.replay import Replay
from tests.outside.rocketmq.jvm import JVM, compiled, libraries
from tests.support.rocketmq.client import RemotingClient
from tests.support.rocketmq.kit import fields

CLIENTS = Path(__file__).parents[1]
SECONDS_MAX = 600
RETRY_SECONDS = 2.5
"""More than the first level of retries."""
COMPRESSED_BY = "-Drocketmq.message.compressType="
BINARY = "-Drocketmq.serialize.type=ROCKETMQ"
RUNNING = ("tx", "push", "retry", "order", "bcast", "sql", "lite", "reply", "delay")
OPENS = [
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in ("java.nio", "sun.nio.ch", "java.lang", "java.util")
]
GOLDEN_NAMES = {
    "{address}": "127.0.0.1:10911",
    "{broker}": "broker-a",
    "{id}": "7F00000100002A9F0000000000000000",
}
"""The names that the recorded commands of mqadmin have."""
MQADMIN = Path(__file__).parents[3] / "golden" / "mqadmin-5.5.0.tsv"
PUSHED_RESET = (
    "updateTopic -c DefaultCluster -t AdmT -r 2 -w 2",
    "sendMessage -t AdmT -p one",
    "sendMessage -t AdmT -p two",
    "updateBrokerConfig -b {address} -k useServerSideResetOffset -v false",
    "consumerProgress -g CG_adm",
    "consumerConnection -g CG_adm",
    "sleep 13",
    "resetOffsetByTime -g CG_adm -t AdmT -s 0 -f true",
    "sleep 14",
    "consumerStatus -g CG_adm",
    "updateBrokerConfig -b {address} -k useServerSideResetOffset -v true",
)
"""Commands around a reset that a broker pushes to the consumer."""
CPP_PACKAGE = "rocketmq==0.4.4"
OF_NAME_SERVER = frozenset(
    {
        RequestCode.PUT_KV_CONFIG, RequestCode.GET_KV_CONFIG, RequestCode.GET_ROUTEINFO_BY_TOPIC,
        RequestCode.GET_BROKER_CLUSTER_INFO, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    }
)  # fmt: skip


class Peers(NamedTuple):
    """The addresses behind a recorder, as its clients see them."""

    name_server: Address
    broker: Address
    broker_name: str
    recorder: Recorder
    folder: Path
    """For what the programs write."""


Program = Callable[[Peers], str]
"""Plays scenarios; returns what it prints."""


def text(address: Address) -> str:
    """Return an address as clients write it."""
    return f"{address[0]}:{address[1]}"


def played(command: list[str], peers: Peers, given: str = "") -> str:
    """Run a program on a given input; return what it prints. TimeoutExpired: it does not end."""
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        timeout=SECONDS_MAX, cwd=peers.folder,
        env=os.environ | {"HOME": str(peers.folder)}, input=given,
    )  # fmt: skip
    return done.stdout


def java(version: str, client: str, scenarios: tuple[str, ...], *options: str) -> Program:
    """Return the program of the Java client of a version."""

    def play(peers: Peers) -> str:
        classes = peers.folder / f"classes-{version}"
        classes.mkdir(exist_ok=True)
        path = compiled(classes, libraries(version), "Recorded.java")
        return played(
            [
                *JVM, *options, f"-Duser.home={peers.folder}", f"-Dns={text(peers.name_server)}",
                f"-Dbroker={peers.broker_name}", f"-Dport={peers.broker[1]}",
                f"-Dlabels={peers.recorder.label_port}", "-cp", path, "Recorded", client,
                *scenarios,
            ],
            peers,
        )  # fmt: skip

    return play


def go(peers: Peers) -> str:
    """Play the scenarios of the Go client."""
    program = peers.folder / "recorded"
    build = ["go", "build", "-o", str(program), "./recorded"]
    subprocess.run(build, cwd=CLIENTS / "go", check=True, timeout=SECONDS_MAX)
    label = str(peers.recorder.label_port)
    return played([str(program), text(peers.name_server), label, text(peers.broker)], peers)


def node(peers: Peers) -> str:
    """Play the scenarios of ali-ons."""
    for name in ("package.json", "recorded.js"):
        shutil.copy(CLIENTS / "node" / name, peers.folder)
    install = ["npm", "install", "--silent", "--no-audit", "--no-fund"]
    subprocess.run(install, cwd=peers.folder, check=True, timeout=SECONDS_MAX)
    label = str(peers.recorder.label_port)
    return played(["node", "recorded.js", text(peers.name_server), label], peers)


def cpp(peers: Peers) -> str:
    """Play the scenarios of the C++ client."""
    python = peers.folder / "cpp" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", peers.folder / "cpp"], check=True, timeout=300)
    install = [str(python), "-m", "pip", "install", "--quiet", CPP_PACKAGE]
    subprocess.run(install, check=True, timeout=SECONDS_MAX)
    program = str(CLIENTS / "cpp" / "recorded.py")
    label = str(peers.recorder.label_port)
    return played([str(python), program, text(peers.name_server), label], peers)


def in_turn(*played_programs: Program) -> Program:
    """Return the program that plays others one after another, which share topics."""

    def play(peers: Peers) -> str:
        return "\n".join(program(peers) for program in played_programs)

    return play


def admin(client: str, lines: Sequence[str], consumed: str) -> Program:
    """Return the program that runs commands of mqadmin 5.5.0 (`java/AdminLines.java`).

    `{address}`, `{broker}` and `{id}` in a line are the broker's and a message's. Of the topic
    `consumed` two groups have offsets before, and a retry, as groups of the recorded broker had:
    one whose consumer stands by, and one without members.
    """

    def play(peers: Peers) -> str:
        for topic in ("AdmViewed", consumed):
            _topic(peers, topic, queues=2)
        groups = ("CG_adm", "CG_admAway")
        _groups(peers, *groups)
        with RemotingClient(peers.broker[1]) as operator:
            viewed = fields(operator.send("AdmViewed", b"viewed"))["msgId"]
            for group in groups:
                _consume(operator, group, consumed, viewed)
            time.sleep(RETRY_SECONDS)  # until the group's retry topic exists
        names = {
            "{address}": text(peers.broker), "{broker}": peers.broker_name, "{id}": viewed,
        }  # fmt: skip
        classes = peers.folder / "classes-mqadmin"
        classes.mkdir(exist_ok=True)
        path = compiled(classes, libraries("5.5.0", "mqadmin.xml"), "AdminLines.java")
        output = played(
            [
                *JVM, *OPENS, f"-Duser.home={peers.folder}", f"-Dclient={client}",
                f"-Dlabels={peers.recorder.label_port}", "-cp", path, "AdminLines",
                text(peers.name_server),
            ],
            peers, given="".join(f"{replaced(line, names)}\n" for line in lines),
        )  # fmt: skip
        recorded = {names[name]: shown for name, shown in GOLDEN_NAMES.items()}
        peers.recorder.entries[:] = [
            entry._replace(scenario=replaced(entry.scenario, recorded))
            for entry in peers.recorder.entries
        ]
        return output

    return play


def _consume(client: RemotingClient, group: str, topic: str, viewed: str) -> None:
    """Store offsets of a group in a topic of two queues, and send a message back."""
    for queue in range(2):
        stored: dict[str, object] = {
            "consumerGroup": group, "topic": topic, "queueId": queue, "commitOffset": 0,
        }  # fmt: skip
        client.call(RequestCode.UPDATE_CONSUMER_OFFSET, stored)
    sent_back: dict[str, object] = {
        "offset": physical_offset_of(viewed), "group": group, "delayLevel": 1,
        "originMsgId": viewed, "originTopic": "AdmViewed", "unitMode": "false",
        "maxReconsumeTimes": 16,
    }  # fmt: skip
    client.call(RequestCode.CONSUMER_SEND_MSG_BACK, sent_back)


def replaced(line: str, names: Mapping[str, str]) -> str:
    """Return a line with other names."""
    for name, value in names.items():
        line = line.replace(name, value)
    return line


def mqadmin_lines() -> list[str]:
    """Return the recorded commands of mqadmin."""
    with MQADMIN.open(encoding="utf-8", newline="") as table:
        rows = csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [row["line"] for row in rows]


def raw(entries: list[Entry], *groups: str) -> Program:
    """Return the program that sends a recording's requests again.

    `groups` existed before the recording, of an earlier one.
    """

    def play(peers: Peers) -> str:
        _prepare(peers, *groups)
        first: dict[int, int] = {}
        for entry in entries:
            if entry.direction == REQUEST:
                first.setdefault(entry.connection, entry.request)
        addresses: Mapping[int, Address] = {
            number: peers.name_server if request in OF_NAME_SERVER else peers.broker
            for number, request in first.items()
        }
        Replay(addresses, peers.recorder.label_port).play(entries)
        return "replayed"

    return play


def _topic(peers: Peers, topic: str, queues: int = 1) -> None:
    """Create a topic, with all fields that RocketMQ wants."""
    with RemotingClient(peers.broker[1]) as client:
        asked: dict[str, object] = {
            "topic": topic, "defaultTopic": "TBW102", "readQueueNums": queues,
            "writeQueueNums": queues,
            "perm": 6, "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false",
        }  # fmt: skip
        client.call(RequestCode.UPDATE_AND_CREATE_TOPIC, asked)


def _prepare(peers: Peers, *groups: str) -> None:
    """Create the topics and groups that the recorded client created outside of its scenarios."""
    _topic(peers, "RawX")
    _groups(peers, "RawXG", "L" * 124, *groups)


def _groups(peers: Peers, *groups: str) -> None:
    """Create groups."""
    with RemotingClient(peers.broker[1]) as client:
        for group in groups:
            settings = {
                "groupName": group, "consumeEnable": True, "retryQueueNums": 1,
                "retryMaxTimes": 2, "brokerId": 0,
            }  # fmt: skip
            code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
            client.call(code, {}, json.dumps(settings).encode())


def programs(golden: Mapping[str, list[Entry]]) -> dict[str, Program]:
    """Return the program of each recording; one of several clients has all their names."""
    return {
        "java5.5-json": in_turn(
            java("5.5.0", "java5.5-json", ("send", "pull")),
            java("5.5.0", "java5.5-json", RUNNING),
        ),
        "java5.5-json2": java("5.5.0", "java5.5-json2", ("retry", "recall")),
        "java5.5-LZ4": java("5.5.0", "java5.5-LZ4", ("zip",), f"{COMPRESSED_BY}LZ4"),
        "java5.5-ZSTD": java("5.5.0", "java5.5-ZSTD", ("zip",), f"{COMPRESSED_BY}ZSTD"),
        "java5.5-binary": java(
            "5.5.0", "java5.5-binary",
            ("send", "tx", "pull", "push", "retry", "order", "delay"), BINARY,
        ),
        "java4.9-json": java("4.9.7", "java4.9-json", ("send", "pull", *RUNNING)),
        "java4.9-binary": java(
            "4.9.7", "java4.9-binary", ("send", "tx", "pull", "push", "retry"), BINARY
        ),
        "go2.1 cpp0.4.4 ali-ons3.12": in_turn(go, cpp, node),
        "admin5.5": admin("admin5.5", mqadmin_lines(), "AdmConsumed"),
        "admin5.5-push220": admin("admin5.5-push220", PUSHED_RESET, "AdmT"),
        "raw-json": raw(golden.get("raw-json", []), "RawNoG"),
        "raw-binary": raw(golden.get("raw-binary", [])),
        "raw2": raw(golden.get("raw2", [])),
    }  # fmt: skip
