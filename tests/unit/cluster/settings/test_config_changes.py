"""Settings altered on one broker are taken up by all of them, also by those who were away."""

import asyncio
import json
import logging
from functools import partial

import pytest

from headrace.broker.metadata_image import ImageDelta
from headrace.broker.quotas import Entity
from headrace.cluster.settings.quota_settings import Alteration as QuotaAlteration
from headrace.cluster.settings.quota_settings import QuotaChange
from headrace.cluster.store import znodes
from headrace.cluster.store.notices import NOTICE_SECONDS
from headrace.cluster.topics.creation import NewTopic
from headrace.config.descriptions import Alteration, AlterOperation
from headrace.model.errors import ApiError
from headrace.ports.store import Set
from headrace.server.assembly import Server
from headrace.testing.sim.cluster import SimCluster
from tests.support.sim import cluster as sim_cluster
from tests.support.sim.cluster import Story, until

SET, DELETE, APPEND = AlterOperation.SET, AlterOperation.DELETE, AlterOperation.APPEND
NOTICES = znodes.CONFIG_CHANGES


def play(story: Story, seed: int = 1) -> None:
    """Run `story` with brokers 0 and 1, of which 0 is the controller."""
    sim_cluster.play(story, 0, 1, seed=seed)


async def settled() -> None:
    """Long enough for whatever is under way to the store and back."""
    await asyncio.sleep(1.0)


def set_(name: str, value: str) -> list[Alteration]:
    return [Alteration(name, SET, value)]


def notices(cluster: SimCluster) -> list[str]:
    return cluster.ensemble.tree.children(NOTICES)


def retention_ms(server: Server, topic: str, index: int) -> int | None:
    return server.broker.partition(topic, index).log.config.retention_ms


async def with_topic(cluster: SimCluster, **config: str | None) -> None:
    """Make topic `t`, partition 0 led by broker 0 and 1 by 1."""
    wanted = NewTopic("t", assignment={0: (0,), 1: (1,)}, config=config)
    (made,) = await cluster.controller().create_topics([wanted])
    assert not isinstance(made, ApiError)
    await until(lambda: "t" in cluster.brokers[1].broker.image.topics)


def test_a_topics_settings_altered_on_one_broker_are_followed_by_the_leader_on_another() -> None:
    async def story(cluster: SimCluster) -> None:
        await with_topic(cluster)
        first, second = cluster.brokers[0], cluster.brokers[1]
        await second.controller.settings.alter_topic("t", set_("retention.ms", "7000"))
        assert retention_ms(second, "t", 1) == 7000
        await until(lambda: retention_ms(first, "t", 0) == 7000)
        assert first.broker.image.topics["t"].config == {"retention.ms": "7000"}
        (notice,) = notices(cluster)
        assert notice == "config_change_0000000000"
        node = cluster.ensemble.tree.get(f"{NOTICES}/{notice}")
        assert node.value == b'{"version":2,"entity_path":"topics/t"}'
        # The controller decides by them, and shows them with the next partition.
        await cluster.controller().create_partitions("t", 3)
        assert second.broker.image.topics["t"].config == {"retention.ms": "7000"}

    play(story)


def test_settings_of_brokers_groups_metrics_and_quotas_reach_every_broker_by_their_kind() -> None:
    async def story(cluster: SimCluster) -> None:
        here, there = cluster.brokers[0].controller.settings, cluster.brokers[1].broker
        await here.alter_broker("", set_("log.retention.ms", "9000"))
        await here.alter_broker("0", set_("log.retention.bytes", "77"))
        await here.groups.alter("g/1", set_("share.auto.offset.reset", "earliest"))
        await here.client_metrics.alter("m", set_("interval.ms", "5000"))
        user, client, ip = ("user", "al ice"), ("client-id", None), ("ip", "10.0.0.1")
        rate = [QuotaChange("producer_byte_rate", 5.0)]
        changes = [
            QuotaAlteration([user], rate),
            QuotaAlteration([user, client], rate),
            QuotaAlteration([("client-id", "app")], rate),
            QuotaAlteration([ip], [QuotaChange("connection_creation_rate", 3.0)]),
        ]
        assert await here.quotas.alter(changes) == [None] * 4
        await until(lambda: len(there.quotas.limits) == 4)
        assert there.config.log_retention_ms == 9000
        assert there.config.log_retention_bytes == -1  # broker 0's own
        assert there.group_configs.texts == {"g/1": {"share.auto.offset.reset": "earliest"}}
        assert there.metrics_subscriptions.texts == {"m": {"interval.ms": "5000"}}
        assert there.quotas.limits == cluster.brokers[0].broker.quotas.limits
        assert there.quotas.limits[Entity("al ice", "")] == {"producer_byte_rate": 5.0}

        await here.groups.alter("g/1", [Alteration("share.auto.offset.reset", DELETE, None)])
        await here.alter_broker("", [Alteration("log.retention.ms", DELETE, None)])
        removed = [QuotaChange("producer_byte_rate", None)]
        await here.quotas.alter([QuotaAlteration([user], removed)])
        await until(lambda: len(there.quotas.limits) == 3)
        assert there.group_configs.texts == {}
        assert there.config.log_retention_ms != 9000

    play(story)


@pytest.mark.parametrize("seed", range(8))
def test_of_two_keys_altered_on_two_brokers_at_once_neither_is_lost(seed: int) -> None:
    async def story(cluster: SimCluster) -> None:
        await with_topic(cluster)
        first, second = (cluster.brokers[number] for number in range(2))
        keys = ("retention.ms", "segment.bytes")
        rates = ("producer_byte_rate", "consumer_byte_rate")
        await asyncio.gather(
            *(
                server.controller.settings.alter_topic("t", set_(key, "70000"))
                for server, key in zip((first, second), keys, strict=True)
            ),
            *(
                server.controller.settings.quotas.alter(
                    [QuotaAlteration([("user", "u")], [QuotaChange(key, 5.0)])]
                )
                for server, key in zip((first, second), rates, strict=True)
            ),
        )
        both = dict.fromkeys(keys, "70000")
        limits = {Entity("u"): dict.fromkeys(rates, 5.0)}
        for broker in (first.broker, second.broker):
            await until(partial(lambda broker: broker.image.topics["t"].config == both, broker))
            await until(partial(lambda broker: broker.quotas.limits == limits, broker))

    play(story, seed)


def test_a_list_is_added_to_as_the_store_has_it_not_as_this_broker_last_heard() -> None:
    async def story(cluster: SimCluster) -> None:
        await with_topic(cluster)
        second = cluster.brokers[1].controller.settings
        key = "follower.replication.throttled.replicas"
        tree = cluster.ensemble.tree
        written = znodes.encode_config({key: "0:1"})
        tree.multi([Set(znodes.topic_config_path("t"), written)])  # told to nobody
        await second.alter_topic("t", [Alteration(key, APPEND, "1:1")])
        assert cluster.brokers[1].broker.image.topics["t"].config == {key: "0:1,1:1"}

    play(story)


def test_what_was_altered_while_a_broker_was_down_it_has_when_it_is_back() -> None:
    async def story(cluster: SimCluster) -> None:
        await with_topic(cluster)
        await cluster.stop(1)
        settings = cluster.brokers[0].controller.settings
        await settings.alter_topic("t", set_("retention.ms", "7000"))
        await settings.groups.alter("g", set_("share.auto.offset.reset", "earliest"))
        server = await cluster.start(1)
        await until(lambda: ("t", 1) in server.broker.partitions)
        assert retention_ms(server, "t", 1) == 7000
        assert server.broker.group_configs.texts == {"g": {"share.auto.offset.reset": "earliest"}}

    play(story)


def test_after_a_lost_session_everything_is_read_again_without_any_notice() -> None:
    """The notices of what was altered meanwhile may be gone by then."""

    async def story(cluster: SimCluster) -> None:
        await with_topic(cluster)
        server = cluster.brokers[1]
        settings = cluster.brokers[0].controller.settings
        await settings.groups.alter("old", set_("share.auto.offset.reset", "earliest"))
        await settings.quotas.alter(
            [QuotaAlteration([("user", "u")], [QuotaChange("producer_byte_rate", 5.0)])]
        )
        await until(lambda: server.broker.quotas.limits)
        store = cluster.ensemble.session("somebody")
        changed = {
            znodes.topic_config_path("t"): {"retention.ms": "7000"},
            f"{znodes.BROKER_CONFIGS}/{znodes.CLUSTER_DEFAULT}": {"log.retention.bytes": "55"},
            f"{znodes.GROUP_CONFIGS}/new": {"share.auto.offset.reset": "latest"},
        }
        for path, config in changed.items():
            operation = store.set if path.endswith("/t") else store.create
            await operation(path, znodes.encode_config(config))
        await store.delete(f"{znodes.GROUP_CONFIGS}/old")
        await store.delete(f"{znodes.USER_CONFIGS}/u")
        await settled()
        assert retention_ms(server, "t", 1) != 7000
        session = cluster.worlds[1]._sessions[-1]
        cluster.ensemble.expire(session)
        await until(lambda: retention_ms(server, "t", 1) == 7000)
        assert server.broker.config.log_retention_bytes == 55
        assert server.broker.group_configs.texts == {"new": {"share.auto.offset.reset": "latest"}}
        assert server.broker.quotas.limits == {}
        assert server.broker.image.topics["t"].config == {"retention.ms": "7000"}

    play(story)


def test_a_topic_shown_as_it_was_before_is_read_again() -> None:
    """An order may carry what its controller knew before the notice."""

    async def story(cluster: SimCluster) -> None:
        await with_topic(cluster)
        server = cluster.brokers[1]
        former = server.broker.image.topics["t"]
        settings = cluster.brokers[0].controller.settings
        await settings.alter_topic("t", set_("retention.ms", "7000"))
        await until(lambda: retention_ms(server, "t", 1) == 7000)
        server.broker.publish(ImageDelta([former]))
        await until(lambda: server.broker.image.topics["t"].config == {"retention.ms": "7000"})
        server.broker.publish(ImageDelta(removed=["t"]))
        server.broker.publish(ImageDelta([former]))  # another topic of that name
        await settled()
        assert server.broker.image.topics["t"].config == {}

    play(story)


def test_a_notice_goes_a_quarter_of_an_hour_after_it_was_read_and_with_the_next_one() -> None:
    async def story(cluster: SimCluster) -> None:
        groups = cluster.brokers[0].controller.settings.groups
        await groups.alter("g", set_("share.auto.offset.reset", "earliest"))
        await asyncio.sleep(NOTICE_SECONDS - 10)
        await groups.alter("g", set_("share.auto.offset.reset", "latest"))
        await asyncio.sleep(20)
        assert len(notices(cluster)) == 2
        await groups.alter("g", set_("share.auto.offset.reset", "earliest"))
        await settled()
        assert notices(cluster) == ["config_change_0000000001", "config_change_0000000002"]

    play(story)


def test_notices_of_both_versions_are_understood_and_others_passed_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(cluster: SimCluster) -> None:
        await with_topic(cluster)
        server = cluster.brokers[1]
        store = cluster.ensemble.session("an old tool")

        async def told(path: str, config: bytes, notice: bytes) -> None:
            await store.set(path, config)
            await store.create(f"{NOTICES}/config_change_", notice, sequential=True)

        topic = znodes.topic_config_path("t")
        await told(topic, b"{", b'{"version":2,"entity_path":"topics/t"}')
        await settled()
        assert "settings that another broker or tool wrote are ignored" in caplog.text
        await told(topic, znodes.encode_config({"retention.ms": "7000"}), b"what?")
        await settled()
        assert retention_ms(server, "t", 1) != 7000
        old = json.dumps({"version": 1, "entity_type": "topics", "entity_name": "t"})
        await told(topic, znodes.encode_config({"retention.ms": "8000"}), old.encode())
        await until(lambda: retention_ms(server, "t", 1) == 8000)

    with caplog.at_level(logging.ERROR):
        play(story)


def test_settings_of_a_topic_that_is_gone_from_the_store_are_not_written() -> None:
    async def story(cluster: SimCluster) -> None:
        await with_topic(cluster)
        topic = cluster.brokers[1].broker.image.topics["t"]
        assert await cluster.controller().delete_topics(["t"]) == {"t": None}
        server = cluster.brokers[1]
        server.broker.publish(ImageDelta([topic]))  # has not heard of it yet
        with pytest.raises(ApiError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            await server.controller.settings.alter_topic("t", set_("retention.ms", "1"))
        assert cluster.ensemble.tree.children(znodes.TOPIC_CONFIGS) == []
        server.broker.publish(ImageDelta(removed=["t"]))

    play(story)


def test_a_broker_that_was_the_controller_alters_settings_like_any_other() -> None:
    async def story(cluster: SimCluster) -> None:
        await with_topic(cluster)
        server = cluster.brokers[0]
        cluster.worlds[0]._sessions[-1].events.lost()
        assert not server.controller.is_controller
        await server.controller.settings.alter_topic("t", set_("retention.ms", "7000"))
        await until(lambda: retention_ms(cluster.brokers[1], "t", 1) == 7000)

    play(story)
