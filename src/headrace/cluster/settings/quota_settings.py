"""`QuotaSettings`: quotas in the store, at Kafka's paths: `/config/users`, `…/clients`, `…/ips`."""

import asyncio
import ipaddress
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headrace.broker.broker import Broker
from headrace.broker.quotas import DEFAULT, Entity, QuotaKey
from headrace.cluster.settings.entity_settings import store_failed
from headrace.cluster.store import znodes
from headrace.cluster.store.catalog import Catalog
from headrace.model.errors import ApiError, ErrorCode
from headrace.ports.store import StoreError
from headrace.posix.awaiting import carried_on

_OF_CLIENTS = frozenset(
    {
        QuotaKey.PRODUCE.value,
        QuotaKey.FETCH.value,
        QuotaKey.REQUEST.value,
        QuotaKey.MUTATION.value,
    }
)
_OF_ADDRESSES = frozenset({QuotaKey.CONNECTIONS.value})
_WHOLE = frozenset({QuotaKey.PRODUCE.value, QuotaKey.FETCH.value, QuotaKey.CONNECTIONS.value})
"""Quotas that must be integers."""
_WHOLE_ENOUGH = 1e-6


class QuotaChange(NamedTuple):
    """A quota to set; None: to remove."""

    key: str
    value: float | None


class Alteration(NamedTuple):
    """Changes of one entity's quotas. `entity`: name by entity type; None: the default entity."""

    entity: Sequence[tuple[str, str | None]]
    changes: Sequence[QuotaChange]


class QuotaSettings:
    """Quotas of users, clients and addresses: changed in the store, applied to the broker."""

    def __init__(self, broker: Broker, catalog: Catalog, change: asyncio.Lock) -> None:
        """Create the quota settings. `change`: lock held during a change."""
        self._broker = broker
        self._catalog = catalog
        self._change = change

    def take_all(self, wanted: Mapping[Entity, Mapping[str, str]]) -> None:
        """Replace all quotas by those of the store."""
        for entity in [entity for entity in self._broker.quotas.limits if entity not in wanted]:
            self.take(entity, {})
        for entity, config in wanted.items():
            self.take(entity, config)

    def take(self, entity: Entity, config: Mapping[str, str]) -> None:
        """Apply the quotas among the settings of `entity`."""
        limits = _quotas_in(config)
        if limits != self._broker.quotas.limits.get(entity, {}):
            self._broker.quotas.put(entity, limits)

    async def alter(
        self, alterations: Sequence[Alteration], *, validate_only: bool = False
    ) -> list[ApiError | None]:
        """Change quotas, each entity independently, effective at once.

        Return the outcomes in order.
        """
        return await carried_on(self._alter(alterations, validate_only))

    async def _alter(
        self, alterations: Sequence[Alteration], validate_only: bool
    ) -> list[ApiError | None]:
        outcome: list[ApiError | None] = []
        async with self._change:
            for alteration in alterations:
                try:
                    entity = checked_entity(alteration.entity)
                    _check_changes(entity, alteration.changes)
                    if not validate_only:
                        await self._alter_one(entity, alteration.changes)
                except ApiError as error:
                    outcome.append(error)
                else:
                    outcome.append(None)
        return outcome

    async def _alter_one(self, entity: Entity, changes: Sequence[QuotaChange]) -> None:
        def changed(config: dict[str, str]) -> dict[str, str]:
            # A user's node may hold more than quotas: what is not ours stays.
            for key, value in changes:
                if value is None:
                    config.pop(key, None)
                else:
                    config[key] = repr(float(value))
            return config

        try:
            config = await self._catalog.configs.change(path_of(entity), changed)
        except StoreError as error:
            raise store_failed(error) from error
        self.take(entity, config or {})


def checked_entity(named: Sequence[tuple[str, str | None]]) -> Entity:
    """Return an entity from its parts in a request.

    ApiError INVALID_REQUEST, with Kafka's reasons.
    """
    found: dict[str, str] = {}
    for kind, name in named:
        if kind in found:
            raise _invalid(f"Invalid empty client quota entity, duplicate entity entry {kind}")
        if kind not in _FIELDS:
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name is not None and not name:
            raise _invalid(f"Empty {kind} not supported")
        found[kind] = DEFAULT if name is None else name
    entity = Entity(**{_FIELDS[kind]: name for kind, name in found.items()})
    if entity == Entity() or (entity.ip is not None and len(found) > 1):
        raise _invalid("Invalid empty client quota entity")
    if entity.ip:
        try:
            ipaddress.ip_address(entity.ip)
        except ValueError:
            raise _invalid(f"{entity.ip} is not a valid IP or resolvable host.") from None
    return entity


_FIELDS = {"user": "user", "client-id": "client", "ip": "ip"}


def entity_names(entity: Entity) -> list[tuple[str, str | None]]:
    """Return the parts of an entity as in the protocol: type and name; None: the default entity."""
    return [
        (kind, getattr(entity, field) or None)
        for kind, field in _FIELDS.items()
        if getattr(entity, field) is not None
    ]


def _check_changes(entity: Entity, changes: Sequence[QuotaChange]) -> None:
    allowed = _OF_CLIENTS if entity.ip is None else _OF_ADDRESSES
    for key, value in changes:
        if value is None:
            continue
        if key not in allowed:
            raise _invalid(f"Invalid configuration key {key}")
        if not value > 0 or math.isinf(value):
            raise _invalid(f"Quota {key} must be greater than 0")
        if key in _WHOLE and abs(math.floor(value + _WHOLE_ENOUGH) - value) > _WHOLE_ENOUGH:
            raise _invalid(f"Configuration {key} must be a Long value")


def _invalid(reason: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, reason)


def _quotas_in(config: Mapping[str, str]) -> dict[str, float]:
    """Return the quotas among an entity's settings.

    Values that are not numbers above 0 are left out.
    """
    found: dict[str, float] = {}
    for key in (key.value for key in QuotaKey):
        try:
            value = float(config[key])
        except (KeyError, ValueError):
            continue
        if value > 0 and not math.isinf(value):
            found[key] = value
    return found


def path_of(entity: Entity) -> str:
    """Return the path of an entity's quotas: `/config/users/U/clients/C` and so on."""
    if entity.ip is not None:
        return f"{znodes.IP_CONFIGS}/{_node(entity.ip)}"
    if entity.user is None:
        return f"{znodes.CLIENT_CONFIGS}/{_node(entity.client or DEFAULT)}"
    path = f"{znodes.USER_CONFIGS}/{_node(entity.user)}"
    return path if entity.client is None else f"{path}/clients/{_node(entity.client)}"


def entity_of(path: str) -> Entity:
    """Return the entity whose quotas the node at `path` holds."""
    kind, *rest = path.removeprefix("/config/").split("/")
    names = [DEFAULT if part == znodes.CLUSTER_DEFAULT else znodes.unquote_entity(part)
             for part in rest]  # fmt: skip
    if kind == "ips":
        return Entity(ip=names[0])
    if kind == "clients":
        return Entity(client=names[0])
    return Entity(names[0], names[2] if len(names) > 2 else None)


def _node(name: str) -> str:
    return znodes.quote_entity(name) if name else znodes.CLUSTER_DEFAULT
