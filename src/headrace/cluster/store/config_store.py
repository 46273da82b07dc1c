"""`ConfigStore`: settings of topics, brokers, groups and clients in the store.

Any broker may write them. Each change has a notice below `/config/changes` that all brokers read,
as in Kafka with ZooKeeper; a store that is not shared gets no notices.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress

from headrace.cluster.store import znodes
from headrace.cluster.store.changed_node import KEEP, Unchanged, change_node
from headrace.model.nouns import BrokerId
from headrace.ports.store import Create, NoNode, Store

NOTICE = f"{znodes.CONFIG_CHANGES}/config_change_"
"""Prefix of the paths of notices."""

DRAINED = "broker.drained"


class ConfigStore:
    """The settings in the store: the tree `/config`."""

    def __init__(self, store: Store) -> None:
        """Create the access to settings on an open store in which the tree's root exists."""
        self.store = store

    async def change(
        self,
        path: str,
        change: Callable[[dict[str, str]], Mapping[str, str] | None],
        *,
        owner: str | None = None,
        drop_empty: bool = False,
    ) -> Mapping[str, str] | None:
        """Write the result of `change` as an entity's settings, with a notice; return the settings.

        Repeated on the new settings if another broker was faster. `change` returns None to leave
        them. `owner`: a node that must exist (else NoNode). `drop_empty`: delete the node if no
        setting is left. BadVersion: other brokers kept being faster.
        """
        outcome: Mapping[str, str] | None = None

        def changed(value: bytes | None) -> bytes | Unchanged | None:
            nonlocal outcome
            outcome = change({} if value is None else znodes.decode_config(path, value))
            if outcome is None:
                return KEEP
            return None if drop_empty and not outcome else znodes.encode_config(outcome)

        told = znodes.encode_config_change(path.removeprefix("/config/"))
        notice = Create(NOTICE, told, sequential=True)
        above = _above(path)
        await change_node(self.store, path, changed, notice, owner=owner, above=above)
        return outcome

    async def entities(self, root: str) -> dict[str, dict[str, str]]:
        """Return the settings of each node below `root`, by unquoted entity name."""
        try:
            quoted = await self.store.children(root)
        except NoNode:
            return {}
        paths = [f"{root}/{name}" for name in quoted]
        return {
            znodes.unquote_entity(name): znodes.decode_config(path, node.value)
            for name, path, node in zip(quoted, paths, await self.store.get_all(paths), strict=True)
            if node is not None
        }

    async def at(self, path: str) -> dict[str, str]:
        """Return the settings of the entity at `path`; empty if there is no node."""
        (node,) = await self.store.get_all([path])
        return {} if node is None else znodes.decode_config(path, node.value)

    async def quotas(self) -> dict[str, dict[str, str]]:
        """Return the settings of users, users' clients, clients and addresses, by path."""
        paths: list[str] = []
        for root in (znodes.USER_CONFIGS, znodes.CLIENT_CONFIGS, znodes.IP_CONFIGS):
            paths += [f"{root}/{name}" for name in await self.store.children(root)]
        for path in list(paths):
            if path.startswith(znodes.USER_CONFIGS):
                with suppress(NoNode):
                    clients = await self.store.children(f"{path}/clients")
                    paths += [f"{path}/clients/{client}" for client in clients]
        nodes = await self.store.get_all(paths)
        return {
            path: znodes.decode_config(path, node.value)
            for path, node in zip(paths, nodes, strict=True)
            if node is not None
        }

    async def of_broker(self, broker: BrokerId) -> tuple[dict[str, str], dict[str, str]]:
        """Return the run-time settings set for every broker, and those set for `broker` only."""
        paths = [
            znodes.broker_config_path(znodes.CLUSTER_DEFAULT),
            znodes.broker_config_path(str(broker)),
        ]
        shared, own = await self.store.get_all(paths)
        return (
            {} if shared is None else znodes.decode_config(paths[0], shared.value),
            {} if own is None else znodes.decode_config(paths[1], own.value),
        )

    async def drained(self) -> frozenset[BrokerId]:
        """Return the brokers whose run-time settings have `DRAINED`; malformed ones have not."""
        names = await self.store.children(znodes.BROKER_CONFIGS)
        found = set()
        for name in filter(str.isdecimal, names):
            with suppress(znodes.BadPayload):
                config = await self.at(znodes.broker_config_path(name))
                if config.get(DRAINED, "").strip().lower() == "true":
                    found.add(BrokerId(int(name)))
        return frozenset(found)


def _above(path: str) -> list[str]:
    """Return the parents of the node of a user's client, which may not exist."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(4, len(parts))]
