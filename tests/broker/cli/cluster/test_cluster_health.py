"""`headrace cluster info` and `health`: one broker, and clusters that are not well."""

from collections.abc import Iterator

import pytest

from headrace.cli.cluster import health as cluster_health
from headrace.client.admin.replicas import Reassigning
from headrace.client.calls.metadata import Metadata, PartitionMetadata, TopicMetadata
from headrace.client.cluster_health import health_of
from headrace.client.standing import Seen, Standing
from headrace.client.transport.port import Address
from headrace.model.errors import STORE_UNANSWERED
from headrace.model.nouns import TopicPartition
from headrace.terminal.health_reasons import reasons_of
from headrace.testing import BrokerThread
from tests.support.processes.cli_kit import asker, sayer


def known(*partitions: PartitionMetadata, controller: int = 1) -> Metadata:
    """A cluster of brokers 1 and 2 with topic `t`."""
    brokers = {1: Address("h", 1), 2: Address("h", 2)}
    topic = TopicMetadata("t", bytes(16), False, partitions)
    return Metadata("c", controller, brokers, dict.fromkeys(brokers), {"t": topic})


def partition(
    leader: int, replicas: tuple[int, ...], isr: tuple[int, ...], number: int = 0
) -> PartitionMetadata:
    return PartitionMetadata(number, leader, 4, replicas, isr, ())


@pytest.mark.parametrize(("cluster", "codes", "text"), [
    (known(partition(1, (1, 2), (1, 2))), [], ""),
    (known(partition(2, (1, 2), (1, 2))), [], ""),
    (known(partition(1, (1, 2), (1,))), ["under_replicated"], "not in sync: t-0"),
    (known(partition(2, (1, 2), (1, 2))._replace(offline=(1,))), ["damaged"], "damaged or"),
    (known(partition(-1, (1, 2), (1,))), ["offline"], "1 partition without a leader"),
    (known(partition(-1, (1, 2), (1, 2))), ["offline"], "cannot be read or written: t-0"),
    (known(partition(1, (1, 2), (1, 2)), controller=-1), ["no_controller"], "no controller"),
    (known(partition(1, (1, 3), (1, 3))), ["brokers_missing"], "hold replicas: 3"),
    (known(*[partition(1, (1, 2), (1,), number) for number in range(7)]),
     ["under_replicated"], "7 partitions with a replica that is not in sync: t-0 t-1 t-2 t-3 t-4"
     " and 2 more"),
])  # fmt: skip
def test_a_cluster_is_unhealthy_for_reasons_that_are_named(
    cluster: Metadata, codes: list[str], text: str
) -> None:
    seen = Seen(cluster)
    reasons = reasons_of(seen)
    assert [reason.code for reason in reasons] == codes
    assert text in " ".join(reason.message for reason in reasons)
    assert (not reasons) == health_of(seen).is_healthy, "as cluster status says"


OUTAGE = f"{STORE_UNANSWERED} 1 since 2026-11-28 17:13:06 UTC (25 s)"
WELL = known(partition(1, (1, 2), (1, 2)))


@pytest.mark.parametrize(("seen", "code", "text"), [
    (Seen(WELL, [Standing(1, refusal=OUTAGE), Standing(2, moves=[])]), "store_unanswered",
     f"{OUTAGE}: check that it runs and that brokers can connect to it"),
    (Seen(WELL, [Standing(1, refusal=OUTAGE), Standing(2, refusal=OUTAGE)]), "store_unanswered",
     f"{OUTAGE}, nor broker 2: check"),
    (Seen(WELL, [Standing(1, moves=[]), Standing(2, "connection refused")]), "brokers_unanswered",
     "1 broker does not answer: 2 (connection refused)"),
    (Seen(known(partition(1, (1, 2), (1, 2)), partition(1, (1, 2, 3), (1, 2), 1)),
          in_sync_needed={"t": 3}), "under_min_isr",
     "1 partition refuses acks=all (2 in sync, min.insync.replicas=3): t-1"),
])  # fmt: skip
def test_a_cluster_is_unhealthy_by_what_its_brokers_answer(
    seen: Seen, code: str, text: str
) -> None:
    found = {reason.code: reason.message for reason in reasons_of(seen)}
    assert found[code].startswith(text)
    assert not health_of(seen).is_healthy


def test_brokers_that_are_not_the_controller_are_no_reason() -> None:
    answers = [Standing(1, moves=[]), Standing(2, refusal="broker 1 is the controller")]
    assert reasons_of(Seen(WELL, answers)) == []


def test_partitions_that_refuse_are_named_by_how_many_are_in_sync() -> None:
    cluster = known(*[
        partition(1, (1, 2, 3), isr, number) for number, isr in enumerate([(1,), (1, 2), (1,)])
    ])  # fmt: skip
    seen = Seen(cluster, in_sync_needed={"t": 3})
    found = [reason.message for reason in reasons_of(seen) if reason.code == "under_min_isr"]
    assert found == [
        "2 partitions refuse acks=all (1 in sync, min.insync.replicas=3): t-0 t-2",
        "1 partition refuses acks=all (2 in sync, min.insync.replicas=3): t-1",
    ]


def test_a_move_is_no_reason_and_is_counted(
    broker: BrokerThread, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    key = TopicPartition("t", 0)
    cluster = known(partition(1, (2, 1), (1,)))
    seen = Seen(cluster, moves={key: Reassigning(key, (2, 1), (2,), (1,))})
    monkeypatch.setattr(cluster_health, "run", lambda call: (call.close(), seen)[1])
    says = sayer(broker.bootstrap, capsys)
    text = "healthy\n  1 partition being moved: headrace cluster reassign --list\n"
    assert says("cluster", "health") == (0, text, "")
    assert asker(says)("cluster health")[1]["moving_partitions"] == 1


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    with BrokerThread() as started:
        started.create_topics("t", partitions=2)
        yield started


def test_one_broker_is_a_healthy_cluster_and_says_what_it_is(
    broker: BrokerThread, capsys: pytest.CaptureFixture[str]
) -> None:
    says = sayer(broker.bootstrap, capsys)
    assert says("cluster", "health") == (0, "healthy\n", "")
    code, text, _ = says("cluster", "info")
    assert (code, "1 broker, 1 topic and 0 internal, 2 partitions, 2 replicas" in text) == (0, True)
    _, found = asker(says)("cluster info")
    assert found["brokers"] == [{"broker": 0, "address": broker.bootstrap, "rack": None}]
    assert (found["controller"], found["partition_count"]) == (0, 2)
    assert asker(says)("cluster health")[1]["reasons"] == []


def test_a_cluster_that_is_not_well_ends_with_code_1_and_its_reasons(
    broker: BrokerThread, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sick = known(partition(-1, (1, 3), (1,)))
    monkeypatch.setattr(cluster_health, "run", lambda call: (call.close(), Seen(sick))[1])
    says = sayer(broker.bootstrap, capsys)
    code, text, _ = says("cluster", "health")
    assert (code, text.splitlines()[0], len(text.splitlines())) == (1, "not healthy:", 3)
    code, found = asker(says)("cluster health")
    assert (code, found["healthy"]) == (1, False)
    assert [reason["code"] for reason in found["reasons"]] == ["brokers_missing", "offline"]
