"""Examples of `--help` as displayed: a shell takes them, the command parses and runs them."""

import json
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.cli.command_tree import app
from headrace.cli.main import run as command
from headrace.terminal.help_text import EXAMPLES, examples
from headrace.testing import BrokerThread
from tests.broker.cli.test_help import VERBS

_OPERATORS = {";", "|", "||", "&&"}
RUN_ELSEWHERE = {
    "serve": "runs until it is stopped",
    "dev": "runs until it is stopped",
    "stop": "of a broker that serve has started",
    "trace --follow": "runs until Ctrl-C",
    "--watch": "runs until Ctrl-C",
    "produce access -F": "runs until Ctrl-C",
    "-o -10": "runs until Ctrl-C",
    "-g billing --json": "runs until Ctrl-C",
    "--share workers": "runs until Ctrl-C",
    "cluster reassign": "three brokers: tests/outside/clients/test_cli_cluster.py",
    "amqp drain": "three brokers: tests/cluster/test_amqp_operations.py",
    "amqp revive": "three brokers: tests/cluster/test_amqp_operations.py",
    "amqp queue grow": "three brokers: tests/cluster/test_amqp_operations.py",
    "amqp queue shrink": "the same",
    "cluster migrate": "ZooKeeper: tests/cluster/test_migration.py",
    "topic create orders -p 6 -r 3": "three brokers",
    "elect-leaders": "three brokers: tests/outside/clients/test_cli_cluster.py",
    "log import": "a Kafka's directory: tests/unit/cli/test_transfer.py",
    "log export": "a stopped broker: tests/unit/cli/test_transfer.py",
    "log repair": "a stopped broker: tests/unit/cli/test_log.py",
    "token": "a listener that authenticates: tests/broker/cli/test_token.py",
    "--install-completion": "writes into the user's shell",
    "completion bash": "the shell runs it",
    "connection close": "a connection with that port",
    "arrow warm": "compiles for a minute",
    "txn abort": "an open transaction: tests/broker/cli/test_txn_and_quota.py",
    "config list broker": "a broker with that id",
    "config get": "a broker with that id",
    "jq": "another program's file",
    "cluster info -b": "the default port",
    "profile": "the user's file: tests/broker/cli/shared/test_profile.py",
    "--to 1000": "a partition with as many records",
    "pipeline validate": "a project and Spark: tests/spark/test_pipeline_validate.py",
    "pipeline plan": "a project and Spark: tests/spark/pipeline/test_plan_and_run.py",
    "pipeline test": "a project: tests/broker/pipeline/test_project_tests.py",
    "pipeline status": "a project: tests/unit/cli/test_pipeline_status_and_stop.py",
    "pipeline stop": "a project: tests/unit/cli/test_pipeline_status_and_stop.py",
    "pipeline init": "writes a directory: tests/spark/pipeline/test_init.py",
    "pipeline diff": "a replay: tests/unit/pipeline/replays/test_replay_commands.py",
    "pipeline replay": "a project and Spark: tests/spark/pipeline/test_pipeline_replay.py",
    "pipeline run": "a project and Spark: tests/spark/pipeline/test_pipeline_run.py",
    "pipeline quarantine": "refused records: tests/broker/cli/test_quarantine.py",
    "mqadmin": "a ROCKETMQ listener: tests/broker/cli/test_mqadmin_verbs.py",
    "rocketmq": "a ROCKETMQ listener: tests/broker/cli/test_rocketmq.py",
    "perf": "a million records: tests/broker/cli/records/test_perf.py",
}
"""Parts of examples that are parsed here and not run, and why."""


def displayed(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines of a command's examples, as `--help` prints them."""
    assert command([*words, "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    if EXAMPLES not in lines:
        return []
    begin = lines.index(EXAMPLES) + 1
    return [line.strip() for line in lines[begin : lines.index("", begin)]]


def commands(line: str) -> Iterator[list[str]]:
    """The commands of ours in a line, by their words, as a shell parses it."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";|&<>()")
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if word not in _OPERATORS:
            words.append(word)
            continue
        if words[:1] == ["headrace"]:
            yield words[1 : words.index(">") if ">" in words else None]
        words = []


GROUPS = {words[:at] for words in VERBS for at in range(1, len(words))}
ALL = [*VERBS, *sorted(GROUPS)]


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_every_displayed_example_is_parsed(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    lines = displayed(words, capsys)
    assert lines or words in GROUPS
    for line in lines:
        found = list(commands(line))
        assert found or "completion" in line, line
        for tokens in found:
            if tokens[:1] != ["--install-completion"]:
                app.parse_args(tokens, exit_on_error=False, print_error=False)


def test_examples_are_parted_outside_of_quotes() -> None:
    text = " headrace query 'select 1; select 2'; headrace a; to see more: headrace b --list "
    assert list(examples(text)) == [
        "headrace query 'select 1; select 2'",
        "headrace a",
        "headrace b --list  # to see more",
    ]


RESET = "share reset workers --to start --topics orders --execute"
COMPACT = "config set topic orders cleanup.policy=compact"
PREPARED = {
    "topic": [f"topic create {name} --if-not-exists" for name in ("orders", "trial-1")],
    "produce": ["topic create orders --if-not-exists"],
    "consume": ["topic create orders --if-not-exists"],
    "producers": ["topic create orders --if-not-exists"],
    "cluster": ["topic create orders --if-not-exists"],
    "log": ["topic create orders --if-not-exists"],
    "query": ["produce orders json.txt -k 1", "produce customers json.txt -k 1"],
    "group": ["produce orders orders.txt", "consume orders -g billing -e --from-beginning"],
    "share": ["topic create orders --if-not-exists", RESET],
    "config": ["topic create orders --if-not-exists", COMPACT],
    "user": ["user create alice --password-file secret.txt"],
    "quota": [
        "quota set producer_byte_rate=9999999 --user alice",
        "quota set request_percentage=200 --default client-id",
    ],
    "acl": ["acl create --allow-principal User:alice --operation read --topic orders"],
    "txn": ["txn list"],
    "amqp": [
        "amqp vhost create shop",
        "amqp user create alice --password-file secret.txt",
        "amqp permission set alice .* .* .* --vhost shop",
        "amqp permission set guest .* .* .* --vhost shop",
        "amqp exchange declare logs --type topic --vhost shop",
        "amqp exchange declare logs --type topic",
        "amqp exchange declare archive --type fanout",
        "amqp queue declare orders --vhost shop",
        "amqp queue declare mails --vhost shop",
        "amqp queue declare errors --vhost shop",
        "amqp binding create logs errors --routing-key error.# --vhost shop",
        "amqp topic-permission set alice amq.topic .* .*",
        "topic create sales --if-not-exists",
    ],
}  # fmt: skip
"""By a command's first word: commands before each of its examples, whatever comes of them."""
INTERACTIVE = {
    "user create alice": "asks for a password",
    "user alter alice": "asks for a password",
}
ALREADY = {
    "topic create": "the topic is there",
    "amqp vhost create": "it is there",
    "amqp user create": "it is there",
    "user create": "it is there",
    "--if-unused": "it has a binding",
    "amqp queue declare": "it is there",
    "amqp exchange declare": "it is there",
    "txn describe": "a producer of that id: tests/broker/cli/test_txn_and_quota.py",
    "--mechanism SCRAM-SHA-256": "it has no such password",
    "topic alter orders -p 12": "partitions are never fewer",
    "share describe": "a member: tests/broker/cli/test_share.py",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory with the files that examples name; its broker is the one that commands ask."""
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,AMQP://127.0.0.1:0",
        "insecure.listeners": "true",
        "amqp.guest": "true",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "num.partitions": "4",
    }
    where = tmp_path_factory.mktemp("examples")
    (where / "orders.txt").write_text("k,v\n")
    (where / "json.txt").write_text(json.dumps({"country": "nz", "customer_id": 1}) + "\n")
    (where / "secret.txt").write_text("a long password\n")
    with BrokerThread(settings) as broker:
        (where / "headrace-data").symlink_to(broker.directory)
        (where / "bootstrap").write_text(broker.bootstrap)
        yield where


class _Terminal:
    """Standard input where the user says yes; empty where lines are read from it."""

    def __init__(self, nothing: Path) -> None:
        self.buffer = nothing.open("rb")

    def isatty(self) -> bool:
        return True

    def readline(self) -> str:
        return "y\n"


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_displayed_examples_run(
    words: tuple[str, ...],
    place: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if words[0] == "query":
        pytest.importorskip("duckdb")
    monkeypatch.chdir(place)
    monkeypatch.setenv("HEADRACE_BOOTSTRAP", (place / "bootstrap").read_text())
    terminal = _Terminal(place / "secret.txt")
    os.lseek(terminal.buffer.fileno(), 0, os.SEEK_END)
    monkeypatch.setattr(sys, "stdin", terminal)
    for line in displayed(words, capsys):
        if any(part in line for part in RUN_ELSEWHERE):
            continue
        for tokens in commands(line):
            if shlex.join(tokens) in INTERACTIVE:
                continue
            for prepared in PREPARED.get(words[0], ()):
                command(shlex.split(prepared))
            capsys.readouterr()
            code = command(tokens)
            told = capsys.readouterr().err
            expected = any(part in line for part in ALREADY)
            assert code == 0 or (expected and code != 2), f"{line}: {code} {told}"
    terminal.buffer.close()
