"""`headrace mqadmin`: mqadmin's verbs, options, columns and results."""

import csv
import re
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.cli.main import run as command
from headrace.cli.rocketmq.mqadmin import VERBS
from headrace.model.protocols import ROCKETMQ
from headrace.testing import BrokerThread
from tests.support.rocketmq.client import RemotingClient, messages_in
from tests.support.rocketmq.kit import SETTINGS, fields, made, port_of

Run = Callable[[str], tuple[int, list[str]]]
GOLDEN = Path(__file__).parents[2] / "golden" / "mqadmin-5.5.0.tsv"
OPTIONS = GOLDEN.with_name("mqadmin-options-5.5.0.tsv")
"""The options that `mqadmin help VERB` of RocketMQ 5.5.0 shows."""
OPTIONAL = {("queryMsgById", "-t")}
"""Options that RocketMQ 4.9.7 does not have."""


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    """A broker for RocketMQ."""
    with BrokerThread(SETTINGS) as started:
        yield started


@pytest.fixture
def client(broker: BrokerThread) -> Iterator[RemotingClient]:
    """A client of RocketMQ's."""
    with RemotingClient(port_of(broker)) as connected:
        yield connected


@pytest.fixture
def run(broker: BrokerThread, capfd: pytest.CaptureFixture[str]) -> Run:
    """The exit code and the lines of a command; those of standard error if it failed."""

    def ask(words: str) -> tuple[int, list[str]]:
        address = f"127.0.0.1:{port_of(broker)}"
        given = words.replace("{address}", address).split(" ")
        status = command(["mqadmin", *given, "-n", address])
        said = capfd.readouterr()
        return status, (said.out if status == 0 else said.err).splitlines()

    return ask


def lines(run: Run, words: str) -> list[str]:
    """Return the lines of a command that succeeds."""
    status, shown = run(words)
    assert status == 0, shown
    return shown


def recorded_options() -> dict[str, dict[str, tuple[str, bool, bool]]]:
    """Return name, whether it has a value and whether it is required, by verb and flag."""
    found: dict[str, dict[str, tuple[str, bool, bool]]] = {verb: {} for verb in VERBS}
    with OPTIONS.open(encoding="utf-8", newline="") as table:
        for row in csv.DictReader(table, delimiter="\t"):
            flag = f"-{row['letter']}" if row["letter"] else f"--{row['name']}"
            has_value, is_required = row["value"] == "yes", row["required"] == "yes"
            found[row["verb"]][flag] = (row["name"], has_value, is_required)
    return found


def recorded_columns() -> dict[str, str]:
    """Return the columns that RocketMQ's mqadmin shows, by verb."""
    with GOLDEN.open(encoding="utf-8", newline="") as table:
        rows = csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE)
        return {row["line"]: row["columns"] for row in rows if row["columns"]}


def test_each_verb_is_named_in_the_help() -> None:
    (help_text,) = (each.help for each in ROCKETMQ.more_commands if each.name == "mqadmin")
    named = re.findall(r"[a-z]+[A-Z]\w+", help_text.split("Verbs:")[1])
    assert set(named) - {"consumerProgress"} == VERBS.keys() - {"consumerProgress"}
    assert len(VERBS) >= 20


@pytest.mark.parametrize("verb", VERBS)
def test_each_option_of_rocketmqs_mqadmin_is_served_or_refused(verb: str) -> None:
    recorded, options = recorded_options()[verb], VERBS[verb].options
    served = {f"-{each.letter}": each for each in (*options.own, *options.either)}
    assert {*served, *options.unavailable} == recorded.keys()
    assert not served.keys() & set(options.unavailable)
    for flag, option in served.items():
        name, has_value, is_required = recorded[flag]
        assert (option.name, option.valued) == (name, has_value)
        assert (
            option.required == is_required or option in options.either or (verb, flag) in OPTIONAL
        )


@pytest.mark.parametrize(
    ("words", "recorded"),
    [
        ("clusterList", "clusterList"),
        ("clusterList -m", "clusterList -m"),
        ("topicList -c", "topicList -c"),
        ("topicStatus -t Cols", "topicStatus -t AdmT"),
        ("consumerProgress", "consumerProgress"),
        ("consumerConnection -g CG_cols", "consumerConnection -g CG_adm"),
        ("queryMsgByKey -t Cols -k k", "queryMsgByKey -t AdmT -k admkey"),
        ("resetOffsetByTime -g CG_cols -t Cols -s 0", "resetOffsetByTime -g AdmG -t AdmT -s 0"),
        ("skipAccumulatedMessage -g CG_cols -t Cols", "skipAccumulatedMessage -g AdmG -t AdmT"),
    ],
)
def test_columns_are_those_of_rocketmqs_mqadmin(
    client: RemotingClient, run: Run, words: str, recorded: str
) -> None:
    made(client, "Cols")
    client.send("Cols", i="KEYS\x01k\x02UNIQ_KEY\x01U1\x02")
    client.heartbeat("one", "CG_cols", {"Cols": "*"})
    header = next(line for line in lines(run, words) if line.startswith("#"))
    squeezed = re.sub(r" #", "|#", re.sub(r"  +", "|", header)).replace("||", "|")
    assert squeezed == recorded_columns()[recorded]


def test_a_header_has_the_widths_of_rocketmqs(run: Run) -> None:
    header, row = lines(run, "clusterList")
    assert header == (
        "#Cluster Name           #Broker Name            #BID  #Addr                  #Version "
        "             #InTPS(LOAD)                   #OutTPS(LOAD)  #Timer(Progress)        "
        "#PCWait(ms)  #Hour         #SPACE    #ACTIVATED"
    )
    assert row.startswith("DefaultCluster          headrace-0              0     127.0.0.1:")
    assert row.endswith("true")
    assert lines(run, "clusterList -c Other") == [header]


def test_topics_are_created_changed_shown_and_deleted(run: Run) -> None:
    assert lines(run, "updateTopic -b {address} -t Made -r 4 -w 2 -a +message.type=FIFO -o true")[
        1
    ] == (
        "TopicConfig [topicName=Made, readQueueNums=4, writeQueueNums=2, perm=RW-,"
        " topicFilterType=SINGLE_TAG, topicSysFlag=0, order=true, attributes={+message.type=FIFO}]"
    )
    assert "Made" in lines(run, "topicList")
    assert lines(run, "topicClusterList -t Made") == ["DefaultCluster"]
    route = "\n".join(lines(run, "topicRoute -t Made"))
    assert '"readQueueNums": 4' in route
    assert '"writeQueueNums": 2' in route
    changed = lines(run, "updateTopicPerm -c DefaultCluster -t Made -p 4")
    assert changed[0].startswith("update topic perm from 6 to 4 in 127.0.0.1:")
    assert "perm=R--" in changed[1]
    assert "readQueueNums=4, writeQueueNums=2" in changed[1]
    again = lines(run, "updateTopicPerm -c DefaultCluster -t Made -p 4")
    assert again == ["new perm equals to the old one!"]
    assert lines(run, "deleteTopic -c DefaultCluster -t Made") == [
        "delete topic [Made] from cluster [DefaultCluster] success.",
        "delete topic [Made] from NameServer success.",
    ]
    status, said = run("topicRoute -t Made")
    assert status == 1
    assert "CODE: 17" in said[0]


def test_a_topics_status_has_a_line_for_each_queue(client: RemotingClient, run: Run) -> None:
    made(client, "Status", 2)
    client.send("Status", e=1)
    _, first, second, _, rate = lines(run, "topicStatus -t Status")
    assert first.split() == ["headrace-0", "0", "0", "0"]
    assert second.split()[:4] == ["headrace-0", "1", "0", "1"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}", " ".join(second.split()[4:]))
    assert rate == "Topic Put TPS: 0.0"


def test_a_groups_progress_has_its_lag_by_queue(client: RemotingClient, run: Run) -> None:
    made(client, "Lag", 2)
    for _ in range(3):
        client.send("Lag")
    client.call(15, {"consumerGroup": "CG_prog", "topic": "Lag", "queueId": 0, "commitOffset": 1})
    shown = lines(run, "consumerProgress -g CG_prog")
    assert shown[1].split()[:7] == ["Lag", "headrace-0", "0", "3", "1", "2", "0"]
    assert shown[2].split() == ["Lag", "headrace-0", "1", "0", "0", "0", "0", "N/A"]
    assert shown[-2:] == ["Consume Diff Total: 2", "Consume Inflight Total: 0"]
    (all_groups,) = [each for each in lines(run, "consumerProgress") if "CG_prog" in each]
    assert all_groups.split() == ["CG_prog", "0", "OFFLINE", "0", "2"]
    client.heartbeat("one", "CG_prog", {"Lag": "*"})
    (online,) = [each for each in lines(run, "consumerProgress") if "CG_prog" in each]
    assert online.split()[1:3] == ["1", "V5_5_0"]
    status, said = run("consumerProgress -g CG_never")
    assert status == 1
    assert "CODE: 17" in said[0]


def test_settings_of_a_group_are_set_shown_and_deleted(client: RemotingClient, run: Run) -> None:
    made(client, "Off")
    created = lines(run, "updateSubGroup -c DefaultCluster -g CG_set -s false -r 3 -o true")
    assert created[0].startswith("create subscription group to 127.0.0.1:")
    assert "groupName=CG_set, consumeEnable=false, consumeFromMinEnable=false" in created[1]
    shown = lines(run, "getConsumerConfig -g CG_set")
    assert shown[0] == "=" * 29 + "DefaultCluster:headrace-0" + "=" * 29
    assert "retryMaxTimes                           =  3" in shown
    assert "consumeMessageOrderly                   =  true" in shown
    assert fields(client.pull("Off", consumerGroup="CG_set")) == {"forbiddenType": "2"}
    deleted = lines(run, "deleteSubGroup -c DefaultCluster -g CG_set -r true")
    assert deleted[0].endswith("in cluster [DefaultCluster] success.")
    assert lines(run, "getConsumerConfig -g CG_set") == []


def test_members_and_producers_are_listed(client: RemotingClient, run: Run) -> None:
    made(client, "Members")
    client.heartbeat("one", "CG_mem", {"Members": "A"})
    shown = lines(run, "consumerConnection -g CG_mem")
    assert shown[1].split()[0] == "one"
    assert shown[1].split()[2:] == ["JAVA", "V5_5_0"]
    assert [line.split() for line in shown[4:6]] == [["#Topic", "#SubExpression"], ["Members", "A"]]
    client.call(34, {}, b'{"clientID":"p","producerDataSet":[{"groupName":"PG"}]}')
    (producer,) = lines(run, "producerConnection -g PG -t Members")
    assert producer.split()[:2] == ["0001", "p"]


def test_offsets_are_reset_and_skipped(client: RemotingClient, run: Run) -> None:
    made(client, "Reset")
    client.send("Reset")
    begun, _, row = lines(run, "resetOffsetByTime -g CG_re -t Reset -s 0")
    assert begun == (
        "start reset consumer offset by specified, group[CG_re], topic[Reset], force[true],"
        " timestamp(string)[0], timestamp(long)[0]"
    )
    assert row.split() == ["headrace-0", "0", "0"]
    for words in (
        "skipAccumulatedMessage -g CG_re -t Reset",
        "resetOffsetByTime -g CG_re -t Reset -s -1",
        "resetOffsetByTime -g CG_re -t Reset -s 2999-01-01#00:00:00:000",
    ):
        assert lines(run, words)[-1].split() == ["headrace-0", "0", "1"]
    assert client.pull("Reset", 0, consumerGroup="CG_re").remark == "OFFSET_RESET"
    assert run("resetOffsetByTime -g CG_re -t Reset -s yesterday")[0] == 2


def test_messages_are_found_by_key_and_by_id(client: RemotingClient, run: Run) -> None:
    made(client, "Found")
    sent = client.send("Found", b"x", i="KEYS\x01k1\x02TAGS\x01A\x02UNIQ_KEY\x01U7\x02")
    (message,) = messages_in(client.pull("Found"))
    _, row = lines(run, "queryMsgByKey -t Found -k k1")
    hour_ms = message.stored_at_ms // 3_600_000 * 3_600_000
    entry = f"{hour_ms}@Found@K@k1@U7@{message.physical_offset}"
    assert row.split() == ["U7", "0", "0", entry]
    by_id = lines(run, f"queryMsgById -i {fields(sent)['msgId']}")
    assert by_id[0] == f"OffsetID:            {fields(sent)['msgId']}"
    assert "Keys:                [k1]" in by_id
    assert f"CommitLog Offset:    {message.physical_offset}" in by_id
    by_key = lines(run, "queryMsgByUniqueKey -t Found -i U7")
    assert by_key == by_id[1:]
    assert run("queryMsgByKey -t Found -k none")[0] == 1
    assert run(f"queryMsgByKey -t Found -k k1 -e {message.stored_at_ms - 1}")[0] == 1
    assert run(f"queryMsgByKey -t Found -k k1 -b {message.stored_at_ms + 1}")[0] == 1
    client.send("Found", b"y", i="KEYS\x01k1\x02UNIQ_KEY\x01U8\x02")
    assert len(lines(run, "queryMsgByKey -t Found -k k1")) == 3
    assert len(lines(run, "queryMsgByKey -t Found -k k1 -m 1")) == 2


def test_settings_and_values_are_read_and_changed(run: Run) -> None:
    shown = lines(run, "getBrokerConfig -b {address}")
    assert shown[0].startswith("============127.0.0.1:")
    assert f"{'brokerName':<50}=  headrace-0" in shown
    assert f"{'brokerActive':<32}: true" in lines(run, "brokerStatus -c DefaultCluster")
    updated = lines(run, "updateBrokerConfig -b {address} -k useServerSideResetOffset -v true")
    assert updated[0].startswith("update broker config success, 127.0.0.1:")
    status, said = run("updateBrokerConfig -b {address} -k rocketmqHome -v /tmp")
    assert status == 1
    assert "CODE: 16" in said[0]
    assert lines(run, "updateKvConfig -s ns -k k -v v") == [
        "create or update kv config to namespace success."
    ]
    assert lines(run, "deleteKvConfig -s ns -k k") == ["delete kv config from namespace success."]


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ("nothing", "The sub command nothing not exist; see: headrace mqadmin --help"),
        ("topicRoute", "Missing required option: t; see: headrace mqadmin topicRoute -h"),
        ("topicRoute -t a -t b", "-t is given twice"),
        ("topicRoute -t a --topic=b", "-t is given twice"),
        ("topicRoute a", "value of no option"),
        ("topicRoute -t", "Missing argument for option: t"),
        ("topicRoute --topics a", "Unrecognized option: --topics"),
        ("topicList -c=DefaultCluster", "Unrecognized option: -c=DefaultCluster"),
        ("updateTopic -t a -z 3 -b {address}", "Unrecognized option: -z"),
        ("updateTopic -t a -u true -b {address}", "-u of RocketMQ's mqadmin is not available"),
        ("updateTopic -t a -b {address} -c DefaultCluster", "-b and -c exclude each other"),
        ("updateTopic -t a -r x -b {address}", "must be a number"),
        ("updateTopic -t a", "-b and -c"),
        ("updateSubGroup -g a -s maybe -b {address}", "true or false"),
        ("updateTopicPerm -t a -p 5 -b {address}", "2, 4 or 6"),
        ("brokerStatus -b nonsense", "nonsense"),
    ],
)
def test_wrong_options_are_usage_errors(run: Run, words: str, part: str) -> None:
    status, said = run(words)
    assert status == 2, said
    assert part in " ".join(said)


def test_an_unknown_option_changes_nothing(run: Run) -> None:
    assert run("updateTopic -b {address} -t Unknown -z 3")[0] == 2
    assert "Unknown" not in lines(run, "topicList")


@pytest.mark.parametrize(
    "words",
    ["-b {address} -t Long", "--brokerAddr={address} --topic Long", "-b{address} -topic Long"],
)
def test_options_have_letters_and_names(run: Run, words: str) -> None:
    created = lines(run, f"updateTopic {words} -r1 --writeQueueNums 1")
    assert "topicName=Long, readQueueNums=1, writeQueueNums=1" in created[1]


@pytest.mark.parametrize(
    "words",
    ["updateTopicPerm -h", "updateTopicPerm -t a --help", "help updateTopicPerm"],
)
def test_a_verbs_options_are_shown_as_by_mqadmin(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["mqadmin", *words.split()]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "usage: mqadmin updateTopicPerm -b <arg> | -c <arg> [-h] [-n <arg>] -p <arg> -t <arg>",
        " -b,--brokerAddr <arg>    The broker, as HOST:PORT",
        " -c,--clusterName <arg>   The brokers of a cluster",
        " -h,--help                Show the options",
        " -n,--namesrvAddr <arg>   HOST:PORT of the broker's listener for RocketMQ",
        " -p,--perm <arg>          Permission: 2 write, 4 read, 6 both",
        " -t,--topic <arg>         The topic",
    ]


def test_the_port_of_another_protocol_is_named(
    broker: BrokerThread, capfd: pytest.CaptureFixture[str]
) -> None:
    assert command(["mqadmin", "clusterList", "-n", broker.bootstrap]) == 1
    assert capfd.readouterr().err == (
        f"headrace: {broker.bootstrap}: this is a RocketMQ client at a Kafka listener; RocketMQ"
        f" listens on 127.0.0.1:{port_of(broker)}\n"
    )


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_a_server_of_another_protocol_is_not_taken_for_a_broker(
    answer: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"

        def refuse() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(answer)

        refusing = threading.Thread(target=refuse)
        refusing.start()
        assert command(["mqadmin", "clusterList", "-n", address]) == 1
        refusing.join()
    assert "no answer of RocketMQ's; does this port speak RocketMQ?" in capfd.readouterr().err


def test_a_cluster_or_a_broker_that_is_not_found_is_an_error(run: Run) -> None:
    status, said = run("brokerStatus -c Other")
    assert (status, "Other" in said[0]) == (1, True)
    status, said = run("brokerStatus -b 127.0.0.1:1")
    assert (status, "127.0.0.1:1" in said[0]) == (1, True)
