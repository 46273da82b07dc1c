"""A broker whose followers fetch: they join its ISR by the controller, and leave when they lag."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.model.errors import ErrorCode
from headrace.model.nouns import LeaderEpoch, TopicPartition
from headrace.replication.controller_calls import AskedIsr, IsrAnswer
from headrace.server.cluster.replicating import Replicating
from headrace.server.inter_broker_clients import InterBrokerClients
from tests.support.cluster.followed import EPOCH, REGISTERED, A, Asking, is_flushed, led, tell
from tests.support.processes.broker import Room, append, until


class Granting:
    """A controller that writes what it is asked to."""

    def __init__(self, here: Room) -> None:
        self.own = here.broker.broker_id
        self.asked: list[AskedIsr] = []

    async def alter_partitions(
        self, asked: Sequence[AskedIsr]
    ) -> Mapping[TopicPartition, IsrAnswer | ErrorCode]:
        self.asked += asked
        return {
            each.topic_partition: IsrAnswer(
                self.own, LeaderEpoch(EPOCH), each.isr, each.partition_epoch + 1
            )
            for each in asked
        }


def made(here: Room) -> Replicating:
    """Make what a broker of a cluster has: this one is alone."""
    store: Any = here.controller._store
    server = here.server
    applier = here.controller.applier
    clients = InterBrokerClients(server.config, server.world.network, None).by("PLAINTEXT")
    return Replicating(
        here.broker, applier, store, server.world, clients, server.directories, "PLAINTEXT", print
    )


def test_followers_join_by_their_fetches_and_leave_when_they_lag(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        partition = await led(here)
        controller, clock = Granting(here), here.broker.clock
        replicating = made(here)
        keeper = replicating.keep_in_sync(controller)
        append(partition)
        await until(is_flushed(partition))
        asking = Asking(here)
        await asking.told(asking.ask({0: (1, EPOCH)}, wait_ms=0))
        own = here.broker.broker_id
        await until(lambda: partition.role.term and partition.role.term.in_sync == {own, A})
        assert (keeper.expands, keeper.shrinks) == (1, 0)
        assert controller.asked[0].epochs == (-1, REGISTERED)
        append(partition)
        hand: Any = clock
        for _ in range(2):
            hand.advance(2.5)
            await asking.told(asking.ask({0: (1, EPOCH)}, wait_ms=0))
        hand.advance(4)
        await until(lambda: partition.role.term and partition.role.term.in_sync == {own})
        assert (keeper.expands, keeper.shrinks) == (1, 1)
        await until(lambda: partition.high_watermark == 2)
        replicating.close()

    tell(tmp_path, story, replica_lag_time_max_ms="5000")


def test_nothing_is_asked_after_a_stop(tmp_path: Path) -> None:
    seen: list[Any] = []

    async def story(here: Room) -> None:
        replicating = made(here)
        seen.append(replicating.keep_in_sync(Granting(here)))
        replicating.close()

    tell(tmp_path, story)
    assert seen[0]._closed
