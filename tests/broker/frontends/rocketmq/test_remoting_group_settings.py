"""Settings of groups (200): a group that is switched off does not pull, and misses nothing."""

import json
from pathlib import Path

import pytest

from headrace.frontends.rocketmq.administration.stored_configs import GROUPS
from headrace.ports.store import SessionLost
from headrace.posix.store.embedded_store import EmbeddedStore
from headrace.server.assembly import Server
from headrace.testing import BrokerThread
from headrace.wire.rocketmq.codes import ResponseCode
from headrace.wire.rocketmq.commands import RemotingCommand
from tests.support.rocketmq.client import RemotingClient, messages_in
from tests.support.rocketmq.kit import PARKED, SETTINGS, code, fields, made, port_of, served


def switched(client: RemotingClient, group: str, on: bool, **more: object) -> RemotingCommand:
    """Switch a group's consumption off or on; return the answer."""
    body = {"groupName": group, "consumeEnable": on} | more
    return client.call(200, {}, json.dumps(body).encode())


def bodies(answer: RemotingCommand) -> list[bytes]:
    """Return the bodies of a pull's messages."""
    return [message.body for message in messages_in(answer)]


def test_a_group_that_is_switched_off_does_not_pull(client: RemotingClient) -> None:
    topic = made(client, "off")
    client.send(topic, b"before")
    assert code(switched(client, "CG_off", False)) is ResponseCode.SUCCESS
    for number in (11, 361):
        refused = client.answer(client.ask_pull(topic, consumerGroup="CG_off", number=number))
        assert code(refused) is ResponseCode.NO_PERMISSION
        assert fields(refused) == {"forbiddenType": "2"}
        assert refused.remark == "subscription group no permission, CG_off"
    assert bodies(client.pull(topic, consumerGroup="CG_on")) == [b"before"]
    client.send(topic, b"while off")
    assert code(switched(client, "CG_off", True)) is ResponseCode.SUCCESS
    assert bodies(client.pull(topic, consumerGroup="CG_off")) == [b"before", b"while off"]


def test_a_parked_pull_is_answered_when_its_group_is_switched_off(
    broker: BrokerThread, client: RemotingClient
) -> None:
    topic = made(client, "parked-off")
    with RemotingClient(port_of(broker)) as operator:
        waits = client.ask_pull(topic, consumerGroup="CG_w", **PARKED)
        stays = client.ask_pull(topic, consumerGroup="CG_stays", **PARKED)
        client.pull(topic, consumerGroup="CG_w")
        switched(operator, "CG_w", False)
        refused = client.answer(waits, 10)
        assert fields(refused) == {"forbiddenType": "2"}
        switched(operator, "CG_w", True)
        again = client.ask_pull(topic, consumerGroup="CG_w", **PARKED)
        client.send(topic, b"on")
        assert [bodies(client.answer(each, 10)) for each in (again, stays)] == [[b"on"]] * 2


def test_offsets_of_a_group_that_is_switched_off_are_served_and_reset(
    client: RemotingClient,
) -> None:
    topic = made(client, "off-offsets")
    client.send(topic)
    switched(client, "CG_o", False)
    named = {"consumerGroup": "CG_o", "topic": topic, "queueId": 0}
    assert code(client.call(15, named | {"commitOffset": 1})) is ResponseCode.SUCCESS
    assert fields(client.call(14, named)) == {"offset": "1"}
    answer = client.call(222, {"group": "CG_o", "topic": topic, "timestamp": 0, "isForce": "true"})
    assert code(answer) is ResponseCode.SUCCESS
    switched(client, "CG_o", True)
    assert client.pull(topic, 1, consumerGroup="CG_o").remark == "OFFSET_RESET"
    assert bodies(client.pull(topic, 0, consumerGroup="CG_o")) == [b"body"]


def test_settings_of_groups_survive_a_restart(tmp_path: Path) -> None:
    with (
        BrokerThread(SETTINGS, directory=str(tmp_path)) as first,
        RemotingClient(port_of(first)) as client,
    ):
        made(client, "t")
        for on in (True, False):
            assert code(switched(client, "CG", on, retryMaxTimes=5)) is ResponseCode.SUCCESS
        assert code(switched(client, "%other|", True)) is ResponseCode.SUCCESS
    with (
        BrokerThread(SETTINGS, directory=str(tmp_path)) as second,
        RemotingClient(port_of(second)) as client,
    ):
        assert code(client.pull("t", consumerGroup="CG")) is ResponseCode.NO_PERMISSION
        kept = second.call(lambda server: served(server).configs.groups.get("CG"))
        assert kept is not None
        assert kept.retries_max == 5
        assert second.call(lambda server: sorted(served(server).configs.groups)) == [
            "%other|", "CG",
        ]  # fmt: skip


def test_settings_that_are_not_stored_do_not_apply(
    broker: BrokerThread, client: RemotingClient
) -> None:
    topic = made(client, "store-away")
    client.send(topic)

    async def lost(*_: object) -> None:
        raise SessionLost("away")

    def away(server: object) -> object:
        store = served(server).configs.groups._store  # type: ignore[arg-type]
        kept = store.set
        store.set = lost  # type: ignore[method-assign,assignment]
        return kept

    kept = broker.call(away)
    refused = switched(client, "CG_away", False)
    assert code(refused) is ResponseCode.SERVICE_NOT_AVAILABLE
    assert "metadata store" in (refused.remark or "")
    assert bodies(client.pull(topic, consumerGroup="CG_away")) == [b"body"]

    def back(server: object) -> None:
        served(server).configs.groups._store.set = kept  # type: ignore[arg-type,method-assign,assignment]

    broker.call(back)
    assert code(switched(client, "CG_away", False)) is ResponseCode.SUCCESS
    assert code(client.pull(topic, consumerGroup="CG_away")) is ResponseCode.NO_PERMISSION


def test_settings_of_a_bad_form_are_refused(client: RemotingClient) -> None:
    for body in (b"", b"[]", b'{"groupName":"CG","consumeEnable":"no"}'):
        assert code(client.call(200, {}, body)) is ResponseCode.SYSTEM_ERROR
    for group in ("a b", "a.b", "x" * 121):
        assert code(switched(client, group, True)) is ResponseCode.INVALID_PARAMETER


def test_settings_that_are_not_deleted_stay_in_force(
    client: RemotingClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = made(client, "delete-away")
    switched(client, "CG_kept", False)

    async def lost(*_: object) -> None:
        raise SessionLost("away")

    monkeypatch.setattr(EmbeddedStore, "delete", lost)
    refused = client.call(207, {"groupName": "CG_kept"})
    assert code(refused) is ResponseCode.SERVICE_NOT_AVAILABLE
    assert code(client.pull(topic, consumerGroup="CG_kept")) is ResponseCode.NO_PERMISSION
    monkeypatch.undo()
    assert code(client.call(207, {"groupName": "CG_kept"})) is ResponseCode.SUCCESS
    assert code(client.pull(topic, consumerGroup="CG_kept")) is ResponseCode.PULL_NOT_FOUND


def test_stored_settings_that_do_not_parse_are_ignored_alone(tmp_path: Path) -> None:
    with (
        BrokerThread(SETTINGS, directory=str(tmp_path)) as first,
        RemotingClient(port_of(first)) as client,
    ):
        made(client, "t")
        for group in ("CG_bad", "CG_other", "CG_list"):
            switched(client, group, False)

        async def spoil(server: Server) -> None:
            store = served(server).configs.groups._store
            await store.set(f"{GROUPS}/CG_bad", b'{"groupName":"CG_bad","consumeEnable":')
            await store.set(f"{GROUPS}/CG_list", b"[]")

        first.run(spoil)
    with (
        BrokerThread(SETTINGS, directory=str(tmp_path)) as second,
        RemotingClient(port_of(second)) as client,
    ):
        assert code(client.pull("t", consumerGroup="CG_other")) is ResponseCode.NO_PERMISSION
        for group in ("CG_bad", "CG_list"):
            assert code(client.pull("t", consumerGroup=group)) is ResponseCode.PULL_NOT_FOUND
        assert code(switched(client, "CG_bad", False)) is ResponseCode.SUCCESS
        assert code(client.pull("t", consumerGroup="CG_bad")) is ResponseCode.NO_PERMISSION
