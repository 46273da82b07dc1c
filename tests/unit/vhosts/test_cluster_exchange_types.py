"""Exchange types in a cluster: declared once all brokers have them, with one route on all."""

import pytest

from headrace.cluster.membership import registration
from headrace.config.listeners import spoken_rows
from headrace.model.protocols import EXCHANGE_TYPES_1, POLICY_RECORDS
from headrace.queues.refusals import RefusalKind, Refused
from headrace.testing.sim.cluster import SimCluster
from headrace.wire.amqp.model_methods import ExchangeDeclare, QueueBind, QueueDeclare
from tests.support.cluster.peer_kit import started
from tests.support.queues.exchange_types import keys
from tests.support.sim.cluster import until
from tests.unit.server.test_cluster_declarations import ask, declarations, played, shown

HASH = ExchangeDeclare(exchange="e", type="x-consistent-hash", durable=True)
TYPES = ("x-random", "x-local-random", "x-modulus-hash", "x-consistent-hash")


async def start_before(cluster: SimCluster, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start a broker that announces the features of the version before."""
    with monkeypatch.context() as before:
        before.setattr(
            registration,
            "spoken_rows",
            lambda listeners: [
                row._replace(later_features=(POLICY_RECORDS,)) for row in spoken_rows(listeners)
            ],
        )
        await started(cluster, number)


def test_types_are_refused_until_all_brokers_have_them(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(cluster: SimCluster) -> None:
        await start_before(cluster, 2, monkeypatch)
        await ask(declarations(cluster, 0), QueueDeclare(queue="q", durable=True))
        applied = declarations(cluster, 0).tables.of_vhost("/").applied
        for number in (0, 1, 2):
            at = declarations(cluster, number)
            for name in TYPES:
                with pytest.raises(Refused, match=f"{EXCHANGE_TYPES_1} serve queues: .* 2$") as no:
                    await ask(at, HASH._replace(type=name))
                assert no.value.kind is RefusalKind.PRECONDITION_FAILED
            with pytest.raises(Refused, match="unknown exchange type 'x-none'"):
                await ask(at, HASH._replace(type="x-none"))
        assert declarations(cluster, 0).tables.of_vhost("/").applied == applied
        await ask(declarations(cluster, 0), HASH._replace(exchange="d", type="direct"))
        await cluster.stop(2)
        await started(cluster, 2)
        await ask(declarations(cluster, 2), HASH)
        assert all(("exchange", "e") in shown(declarations(cluster, n)) for n in (0, 1, 2))

    played(story)


def test_present_exchange_is_declared_again_beside_a_broker_of_the_version_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(cluster: SimCluster) -> None:
        await ask(declarations(cluster, 0), HASH)
        await start_before(cluster, 2, monkeypatch)
        for number in (0, 1):
            assert not (await ask(declarations(cluster, number), HASH)).created
            with pytest.raises(Refused, match="inequivalent arg 'type'"):
                await ask(declarations(cluster, number), HASH._replace(type="x-random"))

    played(story)


def test_hash_routes_are_the_same_on_all_brokers_and_after_a_restart() -> None:
    async def story(cluster: SimCluster) -> None:
        await ask(declarations(cluster, 0), HASH)
        for number, name in enumerate("dacb"):
            at = declarations(cluster, number % 2)
            await ask(at, QueueDeclare(queue=name, durable=True))
            await ask(at, QueueBind(queue=name, exchange="e", routing_key=str(1 + number % 2)))

        def routes(number: int) -> list[tuple[str, ...]]:
            model = declarations(cluster, number).tables.virtual_hosts.hosts["/"].model
            found = keys(100) if "e" in model.exchanges else []
            return [model.router.route("e", key) for key in found]

        before = routes(0)
        assert routes(1) == before
        assert len(set(before)) == 4
        await cluster.stop(1)
        await cluster.start_again(1)
        await until(
            lambda: "e" in declarations(cluster, 1).tables.virtual_hosts.hosts["/"].model.exchanges
        )
        await until(lambda: routes(1) == before)

    played(story)
