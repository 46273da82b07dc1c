"""Policies of a single broker: in its log of declarations, over restarts and failures."""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.amqp_commands.amqp.ask import ask_amqp
from headrace.client.sync import connect, run
from headrace.config.descriptions import Alteration, AlterOperation
from headrace.model.errors import ApiError, ErrorCode
from headrace.queues.model import stored_records
from headrace.queues.model.policies.policy import InvalidPolicy
from headrace.queues.model.policies.vhost_policy import PolicyId, VhostPolicy
from headrace.vhosts import durable_queues
from headrace.vhosts.declarations.declaration_log import DeclarationLog
from headrace.vhosts.declarations.stored_changes import Change
from headrace.vhosts.policies.setting import PolicySettings
from tests.support.queues.policies import policy_value
from tests.support.queues.restarts import Start, Started, eventually, starting

if TYPE_CHECKING:
    from headrace.wire.amqp.field_table import FieldTable

P, OPERATORS = PolicyId("p"), PolicyId("p", True)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts the broker."""
    yield from starting(tmp_path)


def hosts(server: Any) -> Any:
    """The virtual hosts."""
    return server.frontends._others[0].broker.virtual_hosts


def settings_of(server: Any) -> PolicySettings:
    """The setter of policies."""
    queues = server.frontends._others[0].broker
    return PolicySettings(server.broker, queues.virtual_hosts, None, queues.policy_visits)


def set_policies(here: Started, values: Mapping[PolicyId, object], vhost: str = "/") -> None:
    """Set policies. Raises InvalidPolicy, ApiError."""
    here.broker.run(lambda server: settings_of(server).set(vhost, values))


def clear(here: Started, policy: PolicyId) -> None:
    """Clear a policy of `/`."""
    here.broker.run(lambda server: settings_of(server).clear("/", policy))


def policies(here: Started, vhost: str = "/") -> dict[PolicyId, VhostPolicy]:
    """The policies of a vhost."""
    return here.broker.call(lambda server: dict(hosts(server).hosts[vhost].model.policies))


def patterns(here: Started, vhost: str = "/") -> dict[PolicyId, str]:
    """The patterns of a vhost's policies."""
    return {each: policy.policy.pattern for each, policy in policies(here, vhost).items()}


def test_policies_are_restored_with_the_time_of_their_change(start: Start) -> None:
    first, began = start(), int(time.time() * 1000)
    set_policies(first, dict.fromkeys((P, OPERATORS, PolicyId("x")), policy_value()))
    set_policies(first, {P: policy_value("^new", priority=2.5, **{"apply-to": "streams"})})
    clear(first, PolicyId("x"))
    before = policies(first)
    assert before.keys() == {P, OPERATORS}
    assert began <= before[OPERATORS].changed_ms <= before[P].changed_ms <= time.time() * 1000
    second = start()
    assert policies(second) == before
    clear(second, OPERATORS)
    assert patterns(start()) == {P: "^new"}


def test_queues_have_the_settings_of_their_policies_also_after_a_restart(start: Start) -> None:
    here = start()
    here.declare("q")
    here.declare("dead")
    here.declare("expiring", {"x-message-ttl": 700})
    here.publish(*(b"%d" % number for number in range(12)))
    letters = {"dead-letter-exchange": "", "dead-letter-routing-key": "dead"}
    set_policies(here, {P: policy_value(), PolicyId("e"): policy_value("^e", definition=letters)})
    eventually(lambda: here.ready() == 3)
    here.publish(b"expires", key="expiring")
    again = start()
    assert again.ready() == 3
    again.publish(b"12")
    assert again.gets() == ["10", "11", "12"]
    eventually(lambda: again.ready("dead") == 1)
    clear(again, P)
    again.publish(*[b"x"] * 5)
    assert start().ready() == 5


def test_topic_of_a_stream_has_the_settings_of_its_policies(start: Start) -> None:
    here = start()
    stream: FieldTable = {"x-queue-type": "stream", "x-max-age": "1D", "x-max-length-bytes": 77}
    here.declare("s", stream)
    here.publish(b"a", key="s")
    before = topic_settings(here)
    ages = policy_value(
        "^s", definition={"max-age": "2h", "stream-max-segment-size-bytes": 30 << 20}
    )
    set_policies(here, {P: ages})
    after = {**before, "retention.ms": "7200000", "segment.bytes": str(30 << 20)}
    eventually(lambda: topic_settings(here) == after)
    here.declare("s2", stream)
    here.publish(b"a", key="s2")
    assert topic_settings(here, "s2") == after
    here = start()
    here.broker.run(lambda server: altered(server, "retention.ms", "1"))
    here = start()
    eventually(lambda: topic_settings(here) == after)
    here.broker.run(lambda server: altered(server, "retention.bytes", "5"))
    clear(here, P)
    eventually(lambda: topic_settings(here) == {**before, "retention.bytes": "5"})


def topic_settings(here: Started, queue: str = "s") -> dict[str, str]:
    """The own settings of a stream's topic."""
    topic = f"__amqp.queue.{queue}"
    return here.broker.call(lambda server: dict(server.broker.image.topics[topic].config))


async def altered(server: Any, key: str, value: str) -> None:
    """Change a setting of the stream's topic, as Kafka's tools do."""
    change = [Alteration(key, AlterOperation.SET, value)]
    await server.controller.settings.alter_topic("__amqp.queue.s", change)


def test_policies_exist_without_a_queue_and_with_all_bytes_of_a_name(start: Start) -> None:
    named = PolicyId("größe \n 'x'")
    set_policies(start(), {named: policy_value("^größe$")})
    assert patterns(start()) == {named: "^größe$"}


def test_invalid_policy_leaves_the_present_one_also_after_a_restart(start: Start) -> None:
    here = start()
    set_policies(here, {P: policy_value()})
    for wrong in (policy_value("("), policy_value(definition={}), policy_value(priority="1"), None):
        with pytest.raises(InvalidPolicy, match="Validation failed"):
            set_policies(here, {PolicyId("other"): policy_value(), P: wrong})
    with pytest.raises(InvalidPolicy, match="are not recognised policy settings"):
        set_policies(here, {OPERATORS: policy_value(definition={"max-age": "1D"})})
    with pytest.raises(ApiError, match="there is no vhost 'other'"):
        set_policies(here, {P: policy_value()}, "other")
    assert patterns(here) == {P: "^q"}
    assert patterns(start()) == {P: "^q"}


def test_vhost_that_is_created_again_has_no_policies(start: Start) -> None:
    here = start()
    set_policies(here, {P: policy_value("^stays")})

    def operate(name: str) -> None:
        with connect(here.broker.bootstrap) as client:
            run(ask_amqp(client, name, name="shop"))

    operate("vhost.create")
    set_policies(here, {P: policy_value(), OPERATORS: policy_value()}, "shop")
    operate("vhost.delete")
    operate("vhost.create")
    assert patterns(here, "shop") == {}
    set_policies(here, {PolicyId("new"): policy_value()}, "shop")
    again = start()
    assert patterns(again, "shop") == {PolicyId("new"): "^q"}
    assert patterns(again) == {P: "^stays"}


def test_failed_append_is_reported_and_repeated(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable_queues, "RETRY_SECONDS", 0.05)
    here = start()
    set_policies(here, {P: policy_value("^old")})
    append = DeclarationLog.append
    fails = [True]

    async def failing(log: DeclarationLog, changes: Mapping[bytes, Change]) -> None:
        if fails and changes:
            fails.clear()
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "planted")
        await append(log, changes)

    monkeypatch.setattr(DeclarationLog, "append", failing)
    with pytest.raises(ApiError, match="planted"):
        set_policies(here, {P: policy_value("^new")})
    eventually(lambda: here.broker.call(lambda server: _stored(server) == 2))
    assert patterns(start()) == {P: "^new"}


def _stored(server: Any) -> int:
    """The number of records of the log."""
    return sum(
        int(partition.log.end_offset)
        for (topic, _), partition in server.broker.partitions.items()
        if topic == "__amqp.declarations"
    )


def test_version_without_policies_keeps_them_and_all_queues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Started(tmp_path)
    here.declare("q")
    here.publish(b"a")
    set_policies(here, {P: policy_value()})
    here.stop()
    with monkeypatch.context() as before:
        before.delitem(stored_records._KINDS, "policy")
        earlier = Started(tmp_path)
        assert patterns(earlier) == {}
        earlier.declare("other")
        earlier.stop()
    again = Started(tmp_path)
    assert patterns(again) == {P: "^q"}
    assert again.gets() == ["a"]
    assert "other" in again.broker.call(lambda server: set(hosts(server).hosts["/"].model.queues))
    again.stop()
