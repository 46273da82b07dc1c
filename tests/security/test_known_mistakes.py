"""What went wrong in others and has no test elsewhere; README's list names tests there are.

The list is in tests/security/README.md.
"""

import ast
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import headrace
from headrace.security.acl import AclEntry, Permission
from headrace.security.acl_rules import AclRules
from headrace.security.authorizer import Operation, PatternType, Resource, ResourceType
from headrace.security.identity import Identity, Principal
from headrace.security.rules import RuleAuthorizer
from headrace.testing.broker import BrokerThread
from headrace.wire.kafka.api import ApiKey
from tests.support.security.sasl_kit import Knocking

ROOT = Path(__file__).parents[2]
README = (Path(__file__).parent / "README.md").read_text()
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
PROVES = re.compile(r"(key|proof|token|digest|password|signature|verifier|hmac)$")
PLAIN_TYPES = {"ApiKey"}


def mistakes() -> list[str]:
    """Return the list's rows."""
    part = README.partition("<!-- mistakes -->")[2].partition("<!-- end of mistakes -->")[0]
    return [line for line in part.splitlines() if line.startswith("| ")][1:]


@pytest.mark.parametrize("row", mistakes(), ids=lambda row: row[2:40])
def test_each_mistake_of_the_list_has_a_test_that_is_there(row: str) -> None:
    named = TEST.findall(row)
    assert named, row
    for file, function in named:
        found = {
            node.name
            for node in ast.walk(ast.parse((ROOT / file).read_text()))
            if isinstance(node, ast.FunctionDef)
        }
        assert function in found, f"{file}::{function}"


def compared(source: str) -> list[str]:
    """Return the names that prove something and are compared by `==` or `!=`, with their lines."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare) and any(
            isinstance(op, ast.Eq | ast.NotEq) for op in node.ops
        ):
            sides = [node.left, *node.comparators]
            if any(
                isinstance(side, ast.Constant | ast.Attribute) and _is_plain(side) for side in sides
            ):
                continue
            for side in sides:
                name = _name(side)
                if PROVES.search(name):
                    found.append(f"{node.lineno}: {name}")
    return found


def _name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(func=function):
            return "" if _name(function) == "len" else _name(function)
    return ""


def _is_plain(node: ast.expr) -> bool:
    """Tell whether it is a literal, or a member of an enumeration of what is no secret."""
    match node:
        case ast.Constant():
            return True
        case ast.Attribute(value=ast.Name(id=name)):
            return name in PLAIN_TYPES
    return False


def test_what_proves_something_is_compared_in_constant_time() -> None:
    package = Path(headrace.__file__).parent  # what is run, wherever it lies
    rooms = [package / "security", package / "frontends/kafka/security"]
    files = [file for room in rooms for file in sorted(room.rglob("*.py"))]
    files += sorted((package / "frontends/kafka/connection").glob("auth*.py"))
    assert len(files) > 15
    assert [(file.name, line) for file in files for line in compared(file.read_text())] == []
    assert compared("if proof == kept.stored_key: pass") == ["1: proof", "1: stored_key"]
    assert compared("if made.server_key != b: pass") == ["1: server_key"]


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("import pickle\npickle.loads(b'')\n", "S301"),
        ("eval('1')\n", "S307"),
        ("exec('1')\n", "S102"),
        ("import yaml\nyaml.load('', yaml.Loader)\n", "S506"),
        ("import subprocess\nsubprocess.run('ls', shell=True)\n", "S602"),
        ("import os\nos.system('ls')\n", "S605"),
        ("import ssl\nssl._create_unverified_context()\n", "S323"),
        ("import hashlib\nhashlib.md5(b'')\n", "S324"),
    ],
)
def test_what_runs_code_from_data_is_refused_by_the_linter(line: str, rule: str) -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("ruff"), "check", "--stdin-filename",
         "src/headrace/security/planted.py", "--output-format", "concise", "-"],
        input=line, capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    assert f" {rule} " in done.stdout, done.stdout + done.stderr


NAMES = ["..", ".", "../../x", "a/b", "a\0b", "a\nb", "x" * 250, "ａ", "a b", "", "C:\\x", "%2e%2e"]


@pytest.mark.parametrize("name", NAMES)
def test_no_name_that_leads_elsewhere_becomes_a_directory(tmp_path: Path, name: str) -> None:
    directory = tmp_path / "log"
    directory.mkdir()
    with BrokerThread({"auto.create.topics.enable": "true"}, directory=str(directory)) as broker:
        with Knocking(broker) as connection:
            made = connection.ask_values(ApiKey.CREATE_TOPICS, 7, {
                "topics": [{"name": name, "num_partitions": 1, "replication_factor": 1}],
            })  # fmt: skip
            assert made.topics[0].error_code == 17, made
            asked = {"topics": [{"name": name}], "allow_auto_topic_creation": True}
            connection.ask_values(ApiKey.METADATA, 12, asked)
        assert broker.topics() == []
    assert list(directory.rglob("*-0")) == []
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


GUESSES = [
    ("admin", "admin"), ("admin", "admin-secret"), ("guest", "guest"), ("kafka", "kafka"),
    ("alice", "alice-secret"), ("ANONYMOUS", "ANONYMOUS"), ("User:admin", "admin"),
]  # fmt: skip


def test_a_new_broker_lets_nobody_in() -> None:
    settings = {
        "listeners": "SASL://127.0.0.1:0,OPEN://127.0.0.1:0",
        "listener.security.protocol.map": "SASL:SASL_PLAINTEXT,OPEN:PLAINTEXT",
        "connection.failed.authentication.delay.ms": "0",
    }
    with BrokerThread(settings) as broker:
        for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
            for user, password in GUESSES:
                with Knocking(broker) as connection:
                    answer = connection.handshake(mechanism)
                    if mechanism == "PLAIN":
                        assert answer.error_code != 0
                        break
                with Knocking(broker) as connection:
                    assert connection.log_in(mechanism, user, password).error_code != 0
        assert broker.call(lambda server: server.broker.users.of("admin")) == {}


@pytest.mark.parametrize("name", ["a.c", "a*", ".*", "a|b", "(a", "[a]", "a$", "\\w"])
@pytest.mark.parametrize("pattern", [PatternType.LITERAL, PatternType.PREFIXED])
def test_a_name_in_a_rule_is_no_expression(name: str, pattern: PatternType) -> None:
    rules = AclRules()
    allowed = AclEntry("User:alice", "*", Operation.READ, Permission.ALLOW)
    rules.put(Resource(ResourceType.TOPIC, name, pattern), [allowed])
    authorizer = RuleAuthorizer([rules])
    alice = Identity("10.0.0.1", "SECURE", Principal("User", "alice"))

    def may(topic: str) -> bool:
        return authorizer.allows(alice, Operation.READ, Resource(ResourceType.TOPIC, topic))

    assert may(name)
    assert may(name + "x") is (pattern is PatternType.PREFIXED)
    assert not any(map(may, ["abc", "aa", "b", "a", "z"]))


def test_http_reads_no_body_and_answers_text_only() -> None:
    with BrokerThread({"metrics.listener": "127.0.0.1:0"}) as broker:
        http = broker.server.http
        assert http is not None
        with socket.create_connection(("127.0.0.1", http.address[1]), 20) as link:
            head = "POST /metrics HTTP/1.1\r\nHost: <script>\r\nContent-Length: 1000000000\r\n\r\n"
            link.sendall(head.encode())
            answer = b""
            while piece := link.recv(4096):  # ends without one byte of the body
                answer += piece
        assert answer.startswith(b"HTTP/1.1 405 ")
        for path in ("/metrics", "/<script>", "/healthz"):
            with socket.create_connection(("127.0.0.1", http.address[1]), 20) as link:
                link.sendall(
                    f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()
                )
                whole = b""
                while piece := link.recv(1 << 16):
                    whole += piece
            headers = whole.partition(b"\r\n\r\n")[0].lower()
            assert b"content-type: text/plain" in headers
            assert b"access-control-allow-origin" not in headers
            assert b"<script>" not in whole
