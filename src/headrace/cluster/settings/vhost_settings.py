"""`VhostSettings`: AMQP vhosts and their users in the store, a node for each below `/config`.

They are next to the settings of Kafka's users, and changes are notified in the same way
(`ConfigChanges`). A user's credentials are in `user_settings`.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Generic, NamedTuple, TypeVar

from headrace.cluster.settings.entity_settings import store_failed
from headrace.cluster.store.config_store import ConfigStore
from headrace.cluster.store.znodes import BadPayload, quote_entity, unquote_entity
from headrace.config.broker import BrokerConfig
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.protocols import AMQP
from headrace.ports.store import NodeExists, StoreError
from headrace.posix.awaiting import carried_on
from headrace.queues.permissions.definitions import (
    DEFAULT_VHOST_BY_DEFAULT,
    Definitions,
    UserDefinition,
    VhostDefinition,
    check_name,
    decode_parameter,
    decode_user,
    decode_vhost,
    encode_parameter,
    encode_user,
    encode_vhost,
)
from headrace.queues.queue_names import DEFAULT_VHOST
from headrace.wire.amqp.settings import AmqpKeys

_logger = logging.getLogger(__name__)

VHOSTS, USERS, PARAMETERS = AMQP.stored_kinds
NODE_CHARS_MAX = 500_000
"""Characters of one entity's node at most; ZooKeeper refuses nodes over 1 MiB."""

D = TypeVar("D")
Change = Callable[[D | None], D | None]
"""From a stored value to the new one; None: nothing is stored. ApiError."""
ChangeUser = Change[UserDefinition]
ChangeVhost = Change[VhostDefinition]


class _Kind(NamedTuple, Generic[D]):
    """A kind of entities: its nodes below `/config`, and their texts."""

    noun: str
    node: str
    decode: Callable[[Mapping[str, str]], D]
    encode: Callable[[D], dict[str, str]]
    put: Callable[[Definitions, str, D | None], None]
    """Has the broker follow an entity."""


_VHOSTS = _Kind("vhost", VHOSTS, decode_vhost, encode_vhost, Definitions.put_vhost)
_USERS = _Kind("user", USERS, decode_user, encode_user, Definitions.put_user)
_PARAMETERS = _Kind(
    "parameter", PARAMETERS, decode_parameter, encode_parameter, Definitions.put_parameter
)
_KINDS: dict[str, _Kind[Any]] = {kind.node: kind for kind in (_VHOSTS, _USERS, _PARAMETERS)}


def stored_settings(
    configs: ConfigStore, change: asyncio.Lock, config: BrokerConfig
) -> "VhostSettings":
    """Return the vhost settings of a broker with an AMQP listener (`ProtocolRow.stored`)."""
    guest = AmqpKeys.of(config.values).amqp_guest
    return VhostSettings(configs, change, Definitions(guest=guest))


class VhostSettings:
    """Definitions of vhosts and users: changed in the store, applied to the broker."""

    kinds = frozenset(_KINDS)

    def __init__(
        self, configs: ConfigStore, change: asyncio.Lock, definitions: Definitions
    ) -> None:
        """Create the vhost settings.

        `change`: lock held during a change; `definitions` are updated.
        """
        self._configs = configs
        self._change = change
        self.definitions = definitions

    async def load(self) -> None:
        """Replace all definitions by those of the store."""
        for node in _KINDS:
            with suppress(NodeExists):
                await self._configs.store.create(f"/config/{node}", b"")
        vhosts, users = await self._entities(_VHOSTS), await self._entities(_USERS)
        self.definitions.parameters = await self._entities(_PARAMETERS)
        self.definitions.replace(vhosts, users)

    async def _entities(self, kind: _Kind[D]) -> dict[str, D]:
        return _readable(kind, await self._configs.entities(f"/config/{kind.node}"))

    async def read(self, kind: str, quoted: str) -> None:
        """Read one definition from the store."""
        name, texts = unquote_entity(quoted), await self._configs.at(f"/config/{kind}/{quoted}")
        of_kind = _KINDS[kind]
        found = _readable(of_kind, {name: texts} if texts else {})
        if found or not texts or of_kind is not _VHOSTS:  # a malformed vhost keeps its queues
            of_kind.put(self.definitions, name, found.get(name))

    async def change_vhost(self, name: str, change: ChangeVhost) -> VhostDefinition | None:
        """Write the result of `change` as a vhost's definition, effective on return.

        Raises ApiError.
        """
        default = DEFAULT_VHOST_BY_DEFAULT if name == DEFAULT_VHOST else None
        return await self._changed(_VHOSTS, name, change, default)

    async def change_user(self, name: str, change: ChangeUser) -> UserDefinition | None:
        """Write the result of `change` as a user's definition, effective on return.

        Raises ApiError.
        """
        default = self.definitions.default_of(name)
        return await self._changed(_USERS, name, change, default)

    async def change_parameter(self, name: str, change: Change[str]) -> str | None:
        """Write the result of `change` as a global parameter, effective on return.

        Raises ApiError.
        """
        return await self._changed(_PARAMETERS, name, change, None)

    async def _changed(
        self, kind: _Kind[D], name: str, change: Change[D], default: D | None
    ) -> D | None:
        """Write the result of `change` for one entity; `default`: its value without a node."""
        writing = self._write(kind, name, change, default)
        return await carried_on(writing)

    async def _write(
        self, kind: _Kind[D], name: str, change: Change[D], default: D | None
    ) -> D | None:
        wanted: D | None = None

        def changed(texts: dict[str, str]) -> dict[str, str]:
            nonlocal wanted
            wanted = change(kind.decode(texts) if texts else default)
            encoded = {} if wanted is None else kind.encode(wanted)
            if sum(len(key) + len(text) for key, text in encoded.items()) > NODE_CHARS_MAX:
                raise ApiError(
                    ErrorCode.INVALID_REQUEST, f"too much is set for {kind.noun} {name!r}"
                )
            return encoded

        try:
            check_name(kind.noun, name)
            async with self._change:
                path = f"/config/{kind.node}/{quote_entity(name)}"
                await self._configs.change(path, changed, drop_empty=True)
        except ValueError as error:
            raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from None
        except BadPayload as error:
            raise ApiError(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"metadata store: mend or delete {error}"
            ) from None
        except StoreError as error:
            raise store_failed(error) from error
        kind.put(self.definitions, name, wanted)
        return wanted


def _readable(kind: _Kind[D], found: Mapping[str, Mapping[str, str]]) -> dict[str, D]:
    readable: dict[str, D] = {}
    for name, texts in found.items():
        try:
            readable[name] = kind.decode(texts)
        except (ValueError, TypeError) as error:
            _logger.error(
                "%s: %s %r is ignored, as its node in the metadata store is malformed: %s. Define"
                " it again, or delete the node", AMQP.name, kind.noun, name, error,
            )  # fmt: skip
    return readable
