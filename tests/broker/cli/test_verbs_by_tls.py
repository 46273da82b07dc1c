"""Every verb that asks brokers does so by TLS and a password: from a file, and from a profile."""

from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.cli.command_tree import app
from headrace.cli.log.transfer import TransferOptions, _ask
from headrace.cli.main import run as command
from headrace.testing.broker import BrokerThread
from tests.broker.cli.test_help import verbs

ACL = "--allow-principal User:bob --operation read --topic t"
WORDS = [
    "topic create t made", "produce t {lines}", "topic list", "topic describe t", "topic offsets t",
    "topic alter t -p 2", "topic export t --to jsonl -o {place}/t.jsonl",
    "topic trim t:0 --to end --yes",
    "consume t --from-beginning --until-end", "consume t -g g --from-beginning --until-end",
    "group list", "group describe g", "group seek g --to start --topics t",
    "group reset g --to-earliest --topic t --execute",
    "group delete-offsets g --topic t --yes", "group delete g",
    "cluster info", "cluster health", "cluster status", "cluster controller", "cluster brokers",
    "cluster partitions", "cluster elect-leaders", "cluster reassign t:0=0",
    "config list topic t", "config get topic t retention.ms", "config set topic t retention.ms=1d",
    "share list", "share describe s",
    "share reset s --to start --topics t --execute", "share delete s",
    "txn list", "txn describe x", "txn abort --topic t:0 --start-offset 0 --yes", "producers t",
    "user create carol --password-file {password}", "user list",
    "user alter carol --password-file {password}", "user delete carol",
    "quota set producer_byte_rate=1000000 --user carol", "quota list",
    "quota delete producer_byte_rate --user carol",
    f"acl create {ACL}", "acl list", f"acl delete {ACL} --yes",
    "pipeline init {place}/shop --from-topic t",
    "query 'select count(*) from t'", "perf produce made --records 10", "disk",
    "perf consume made --timeout 1", "token create {place}/token.properties", "token list",
    "token renew none", "token expire none", "topic delete made --yes",
    "pipeline quarantine list t", "pipeline quarantine show t-0@0", "pipeline quarantine replay t",
    "pipeline quarantine drop t --yes",
    "amqp vhost create shop", "amqp vhost alter shop --max-queues 7", "amqp vhost list",
    "amqp user create dave --password-file {password}", "amqp user alter dave --tag monitoring",
    "amqp user import erin --hash-file {hash}", "amqp user list",
    "amqp permission set dave '' '' '.*' --vhost shop", "amqp permission list",
    "amqp topic-permission set dave amq.topic '' '.*' --vhost shop", "amqp topic-permission list",
    "amqp topic-permission clear dave amq.topic --vhost shop",
    "amqp permission clear dave --vhost shop",
    "amqp queue declare q --vhost shop", "amqp exchange declare e --type fanout --vhost shop",
    "amqp binding create e q --vhost shop", "amqp exchange list", "amqp queue list",
    "amqp binding list", "amqp binding delete e q --vhost shop",
    "amqp exchange delete e --vhost shop --yes", "amqp queue purge q --vhost shop --yes",
    "amqp queue delete q --vhost shop --yes", "amqp connection list",
    "amqp connection close 127.0.0.1:1", "amqp channel list", "amqp consumer list",
    "amqp queue show q", "amqp broker list", "amqp queue grow 0 --all",
    "amqp queue shrink 0 --all", "amqp queue rebalance",
    "amqp queue critical", "amqp drain 0", "amqp revive 0",
    "amqp user delete dave --yes", "amqp vhost delete shop --yes",
]  # fmt: skip
NOT_RUN = {
    "trace": "its --follow goes on until Ctrl-C, by the same client",
    "log import": "asks nobody, and shares its options with the export",
    "log export": "asks only with a whole log directory in hand: see the test of it below",
    "pipeline plan": "needs a project: tests/broker/pipeline/test_begin_records.py",
    "pipeline run": "needs a project and Spark: tests/spark/pipeline/test_guarded_runs.py",
    "pipeline replay": "needs a project and Spark: tests/spark/pipeline/test_pipeline_replay.py",
    "profile create": "keeps settings, and asks nobody",
    "rocketmq where-would-a-group-begin": "a ROCKETMQ listener: tests/broker/cli/test_rocketmq.py",
    "rocketmq offsets export": "a ROCKETMQ listener: tests/broker/cli/test_rocketmq.py",
    "rocketmq offsets import": "a ROCKETMQ listener: tests/broker/cli/test_rocketmq.py",
    "rocketmq topics import": "a ROCKETMQ listener: tests/broker/cli/test_rocketmq.py",
    "rocketmq groups import": "a ROCKETMQ listener: tests/broker/cli/test_rocketmq.py",
}


def asking() -> list[tuple[str, set[str]]]:
    """All verbs with -b, and their flags."""
    found = []
    for words, verb in verbs(app):
        names = {
            name for argument in verb.assemble_argument_collection() for name in argument.names
        }
        if "--bootstrap-server" in names:
            found.append((" ".join(words), names))
    return found


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    """One that asks who connects, and has ACLs."""
    config = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "delegation.token.secret.key": "kept-by-the-broker",
    }
    with BrokerThread(config, security="SASL_SSL", memory=True) as started:
        yield started


def test_every_verb_that_asks_brokers_takes_a_file_and_a_profile() -> None:
    for verb, names in asking():
        assert "--command-config" in names, verb
        assert "--profile" in names or verb == "profile create", verb


def test_every_verb_that_asks_brokers_is_run_here() -> None:
    run = {verb for verb, _ in asking() for line in WORDS if f"{line} ".startswith(f"{verb} ")}
    assert {verb for verb, _ in asking()} - run == set(NOT_RUN)


@pytest.mark.parametrize("by", ["file", "profile"])
def test_every_verb_asks_by_tls_and_a_password(
    broker: BrokerThread,
    by: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    import shlex

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    broker.delete_topics("t", "made")
    file = str(broker.clients.file)
    where = ["-b", broker.bootstrap, "--command-config", file]
    if by == "profile":
        assert command(["profile", "create", "p", "--command-config", file]) == 0
        where = ["--profile", "p"]
    (tmp_path / "lines").write_text("one\ntwo\n")
    (tmp_path / "password").write_text("carols\n")
    (tmp_path / "hash").write_text(f"{b64encode(bytes(36)).decode()}\n")
    filled = {name: tmp_path / name for name in ("lines", "password", "hash")} | {"place": tmp_path}
    failed = []
    for line in WORDS:
        # What is not there, or is not as asked for, was answered all the same: 0, 1 and 4.
        code = command([*shlex.split(line.format(**filled)), *where])
        said = capfd.readouterr().err
        if code not in {0, 1, 4} or "connect" in said or "uthenticat" in said:
            failed.append(f"{line}: {code}: {said}")
    assert not failed, "\n".join(failed)


def test_an_export_asks_for_topic_ids_by_the_same_settings(broker: BrokerThread) -> None:
    broker.create_topics("exported")
    asked = _ask(TransferOptions(bootstrap=broker.bootstrap, command_config=broker.clients.file))
    assert asked["exported"][1] == 1
