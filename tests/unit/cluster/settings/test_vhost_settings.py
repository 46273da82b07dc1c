"""Vhosts and users of AMQP in the store: changed by several brokers, read at a start."""

import asyncio
import logging
from typing import Any

import pytest

from headrace.cluster.settings.vhost_settings import VhostSettings
from headrace.model.errors import ApiError, ErrorCode
from headrace.queues.permissions.access import Grant
from headrace.queues.permissions.definitions import Definitions, UserDefinition, VhostDefinition
from headrace.server.assembly import Server
from headrace.testing.sim.cluster import SimCluster
from tests.support.sim import cluster as sim_cluster
from tests.support.sim.cluster import Story, until

SHOP = VhostDefinition("orders", queues_max=9)
BOB = UserDefinition(("monitoring",), grants={"a/b": Grant("^x", "", ".*")})


def play(story: Story) -> None:
    """Run `story` with brokers 0 and 1."""
    sim_cluster.play(story, 0, 1)


async def settings_of(server: Server, *, guest: bool = False) -> Any:
    """Have a broker follow what there is for AMQP, as one that has a listener of it."""
    settings: Any = server.controller.settings
    made = VhostSettings(settings._catalog.configs, settings._change, Definitions(guest=guest))
    settings.__dict__["stored"] = {"AMQP": made}
    await made.load()
    return made


def test_what_one_broker_changes_the_other_takes_up() -> None:
    async def story(cluster: SimCluster) -> None:
        one, two = [await settings_of(broker) for broker in cluster.brokers.values()]
        await one.change_vhost("ü/b", lambda vhost: SHOP)
        await two.change_user("bob:,", lambda user: BOB)
        await until(lambda: two.definitions.vhosts.get("ü/b") == SHOP)
        await until(lambda: one.definitions.users.get("bob:,") == BOB)
        assert one.definitions.permissions.has_any("bob:,", "a/b")
        await two.change_vhost("ü/b", lambda vhost: None)
        await one.change_user("bob:,", lambda user: None)
        await until(lambda: "ü/b" not in one.definitions.vhosts)
        await until(lambda: "bob:," not in two.definitions.users)
        assert not two.definitions.permissions.has_any("bob:,", "a/b")

    play(story)


def test_a_broker_that_starts_reads_all_and_two_at_once_lose_nothing() -> None:
    async def story(cluster: SimCluster) -> None:
        one, two = [await settings_of(broker) for broker in cluster.brokers.values()]

        async def tag(settings: Any, name: str) -> None:
            await settings.change_user(
                "bob", lambda user: (user or BOB)._replace(tags=(*(user or BOB).tags, name))
            )

        await asyncio.gather(*(tag(each, f"t{at}") for at, each in enumerate([one, two] * 5)))
        late = await settings_of(cluster.brokers[0])
        tags = late.definitions.users["bob"].tags
        assert sorted(tags) == ["monitoring", *(f"t{at}" for at in range(10))]

    play(story)


def test_what_nobody_may_be_named_and_what_fails_changes_nothing() -> None:
    async def story(cluster: SimCluster) -> None:
        one = await settings_of(cluster.brokers[0])
        for name in ("", "..", "a\nb"):
            with pytest.raises(ApiError) as refused:
                await one.change_vhost(name, lambda vhost: SHOP)
            assert refused.value.code is ErrorCode.INVALID_REQUEST
        many = {f"v{at}": Grant("a" * 4000, "b" * 4000, "") for at in range(100)}
        with pytest.raises(ApiError, match="too much is set for user 'bob'"):
            await one.change_user("bob", lambda user: BOB._replace(grants=many))
        assert one.definitions.users == {}
        assert list(one.definitions.vhosts) == ["/"]

    play(story)


def test_guest_is_changed_from_what_he_is_by_default() -> None:
    async def story(cluster: SimCluster) -> None:
        one = await settings_of(cluster.brokers[0], guest=True)
        every = Grant(".*", ".*", ".*")
        await one.change_user(
            "guest", lambda user: user._replace(grants={**user.grants, "shop": every})
        )
        assert one.definitions.users["guest"].grants == {"/": every, "shop": every}

    play(story)


def test_a_node_that_cannot_be_read_is_left_out_and_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(cluster: SimCluster) -> None:
        one = await settings_of(cluster.brokers[0])
        await one.change_user("bob", lambda user: BOB)
        configs = one._configs
        await configs.change("/config/amqp-users/bob", lambda config: {"permissions//": "7"})
        with caplog.at_level(logging.ERROR):
            again = await settings_of(cluster.brokers[0])
        assert again.definitions.users == {}
        assert "user 'bob' is ignored" in caplog.text

    play(story)


def test_vhost_stays_as_it_was_when_its_node_becomes_malformed() -> None:
    """It is not deleted with its queues: a later change may mend the node."""

    async def story(cluster: SimCluster) -> None:
        one, two = [await settings_of(broker) for broker in cluster.brokers.values()]
        await one.change_vhost("shop", lambda vhost: SHOP)
        await until(lambda: two.definitions.vhosts.get("shop") == SHOP)
        path = "/config/amqp-vhosts/shop"
        await one._configs.change(path, lambda config: {"max-queues": "many"})
        for each in (one, two):
            await each.read("amqp-vhosts", "shop")
            assert each.definitions.vhosts["shop"] == SHOP
        await one._configs.change(path, lambda config: {"description": "mended", "later": "x"})
        await one.read("amqp-vhosts", "shop")
        assert one.definitions.vhosts["shop"].description == "mended"
        changed = await one.change_vhost("shop", lambda vhost: vhost._replace(queues_max=5))
        assert changed.others == {"later": "x"}, "settings of a later version stay"

    play(story)


def test_global_parameters_are_those_of_the_cluster() -> None:
    async def story(cluster: SimCluster) -> None:
        one, two = [await settings_of(broker) for broker in cluster.brokers.values()]
        await one.change_parameter("a/\u00fc%", lambda value: '{"x":[1,null]}')
        await until(lambda: two.definitions.parameters == {"a/\u00fc%": '{"x":[1,null]}'})
        with pytest.raises(ApiError, match="too much"):
            await two.change_parameter("b", lambda value: '"' + "x" * 600_000 + '"')
        late = await settings_of(cluster.brokers[0])
        assert late.definitions.parameters == two.definitions.parameters
        await late.change_parameter("a/\u00fc%", lambda value: None)
        await until(lambda: two.definitions.parameters == {})

    play(story)
