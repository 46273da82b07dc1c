"""`VhostSettings`: AMQP vhosts and their users in the store, a node for each below `/config`.

They are next to the settings of Kafka's users, and changes are notified in the same way
(`ConfigChanges`). A user's credentials are in `user_settings`.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TypeVar

from headrace.cluster.settings.entity_settings import store_failed
from headrace.cluster.store.config_store import ConfigStore
from headrace.cluster.store.znodes import BadPayload, quote_entity, unquote_entity
from headrace.config.broker import BrokerConfig
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.protocols import AMQP
from headrace.ports.store import NodeExists, StoreError
from headrace.posix.awaiting import carried_on
from headrace.queues.permissions.definitions import (
    Definitions,
    UserDefinition,
    VhostDefinition,
    check_name,
    decode_user,
    decode_vhost,
    encode_user,
    encode_vhost,
)
from headrace.queues.queue_names import DEFAULT_VHOST
from headrace.wire.amqp.settings import AmqpKeys

_logger = logging.getLogger(__name__)

VHOSTS, USERS = AMQP.stored_kinds
NODE_CHARS_MAX = 500_000
"""Characters of one user's node at most; ZooKeeper refuses nodes over 1 MiB."""

ChangeUser = Callable[[UserDefinition | None], UserDefinition | None]
"""From a user's definition to the new one; None: no definition. ApiError."""
ChangeVhost = Callable[[VhostDefinition | None], VhostDefinition | None]
D = TypeVar("D", UserDefinition, VhostDefinition)


def stored_settings(
    configs: ConfigStore, change: asyncio.Lock, config: BrokerConfig
) -> "VhostSettings":
    """Return the vhost settings of a broker with an AMQP listener (`ProtocolRow.stored`)."""
    guest = AmqpKeys.of(config.values).amqp_guest
    return VhostSettings(configs, change, Definitions(guest=guest))


class VhostSettings:
    """Definitions of vhosts and users: changed in the store, applied to the broker."""

    kinds = frozenset({VHOSTS, USERS})

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
        for kind in (VHOSTS, USERS):
            with suppress(NodeExists):
                await self._configs.store.create(f"/config/{kind}", b"")
        vhosts = await self._configs.entities(f"/config/{VHOSTS}")
        users = await self._configs.entities(f"/config/{USERS}")
        self.definitions.replace(
            _readable("vhost", vhosts, decode_vhost), _readable("user", users, decode_user)
        )

    async def read(self, kind: str, quoted: str) -> None:
        """Read one definition from the store."""
        name, texts = unquote_entity(quoted), await self._configs.at(f"/config/{kind}/{quoted}")
        if kind == VHOSTS:
            found = _readable("vhost", {name: texts} if texts else {}, decode_vhost)
            if found or not texts:  # a vhost with a malformed node keeps its queues
                self.definitions.put_vhost(name, found.get(name))
        else:
            users = _readable("user", {name: texts} if texts else {}, decode_user)
            self.definitions.put_user(name, users.get(name))

    async def change_vhost(self, name: str, change: ChangeVhost) -> VhostDefinition | None:
        """Write the result of `change` as a vhost's definition, effective on return.

        Raises ApiError.
        """
        return await carried_on(self._change_vhost(name, change))

    async def _change_vhost(self, name: str, change: ChangeVhost) -> VhostDefinition | None:
        default = VhostDefinition() if name == DEFAULT_VHOST else None
        vhost = await self._changed(
            "vhost", VHOSTS, name, change, default, decode_vhost, encode_vhost
        )
        self.definitions.put_vhost(name, vhost)
        return vhost

    async def change_user(self, name: str, change: ChangeUser) -> UserDefinition | None:
        """Write the result of `change` as a user's definition, effective on return.

        Raises ApiError.
        """
        return await carried_on(self._change_user(name, change))

    async def _change_user(self, name: str, change: ChangeUser) -> UserDefinition | None:
        default = self.definitions.default_of(name)
        user = await self._changed("user", USERS, name, change, default, decode_user, encode_user)
        self.definitions.put_user(name, user)
        return user

    async def _changed(
        self,
        what: str,
        kind: str,
        name: str,
        change: Callable[[D | None], D | None],
        default: D | None,
        decode: Callable[[Mapping[str, str]], D],
        encode: Callable[[D], dict[str, str]],
    ) -> D | None:
        """Write the result of `change` for one entity; `default`: its definition without a node."""
        wanted: D | None = None

        def changed(texts: dict[str, str]) -> dict[str, str]:
            nonlocal wanted
            wanted = change(decode(texts) if texts else default)
            encoded = {} if wanted is None else encode(wanted)
            if sum(len(key) + len(text) for key, text in encoded.items()) > NODE_CHARS_MAX:
                raise ApiError(ErrorCode.INVALID_REQUEST, f"too much is set for {what} {name!r}")
            return encoded

        try:
            check_name(what, name)
            async with self._change:
                path = f"/config/{kind}/{quote_entity(name)}"
                await self._configs.change(path, changed, drop_empty=True)
        except ValueError as error:
            raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from None
        except BadPayload as error:
            raise ApiError(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"metadata store: mend or delete {error}"
            ) from None
        except StoreError as error:
            raise store_failed(error) from error
        return wanted


def _readable(
    what: str, found: Mapping[str, Mapping[str, str]], decode: Callable[[Mapping[str, str]], D]
) -> dict[str, D]:
    readable: dict[str, D] = {}
    for name, texts in found.items():
        try:
            readable[name] = decode(texts)
        except (ValueError, TypeError) as error:
            _logger.error(
                "%s: %s %r is ignored, as its node in the metadata store is malformed: %s. Define"
                " it again, or delete the node", AMQP.name, what, name, error,
            )  # fmt: skip
    return readable
