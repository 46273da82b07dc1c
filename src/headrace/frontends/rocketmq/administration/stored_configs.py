"""Settings of groups and of topics in the metadata store, and all of them in memory.

    /headrace-rocketmq/groups/<group>       SubscriptionGroupConfig as JSON
    /headrace-rocketmq/topics/<topic id>    TopicConfig as JSON
    /headrace-rocketmq/values/<name>        a value that tools store in the name server

Groups and topics without a node have RocketMQ's defaults. A change is in memory when it is stored;
a group that a client uses first, with the defaults, before that.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import suppress
from typing import Any, Generic, NamedTuple, TypeVar

from headrace.model.errors import ApiError, ErrorCode, Malformed
from headrace.ports.store import NodeExists, NoNode, Store, StoreError
from headrace.wire.rocketmq.fastjson import FastJson, decode_body, encode_body
from headrace.wire.rocketmq.group_configs import GroupConfig, group_config, group_config_json
from headrace.wire.rocketmq.requests import InvalidField
from headrace.wire.rocketmq.topic_configs import (
    TopicConfig,
    stored_topic_config,
    stored_topic_config_json,
)

GROUPS = "/headrace-rocketmq/groups"
TOPICS = "/headrace-rocketmq/topics"
VALUES = "/headrace-rocketmq/values"
GROUPS_MAX = 100_000
"""Groups with settings; above it clients create none by using them."""
_log = logging.getLogger(__name__)

C = TypeVar("C")


class StoredConfigs(Generic[C]):
    """The settings below one path. On the deciding thread."""

    def __init__(
        self,
        store: Store,
        path: str,
        decode: Callable[[Mapping[str, FastJson]], C],
        encode: Callable[[C], dict[str, FastJson]],
    ) -> None:
        self._store = store
        self._path = path
        self._decode = decode
        self._encode = encode
        self._known: dict[str, C] = {}
        self._lock = asyncio.Lock()

    async def load(self) -> None:
        """Read all settings. Raises ApiError: the store is not available.

        Settings that do not parse are left out, with a line in the log.
        """
        try:
            await self._make_path()
            keys = await self._store.children(self._path)
            nodes = await self._store.get_all([f"{self._path}/{key}" for key in keys])
        except StoreError as error:
            raise _unavailable(error) from error
        known: dict[str, C] = {}
        for key, node in zip(keys, nodes, strict=True):
            if node is None:
                continue
            try:
                value = decode_body(node.value)
                if not isinstance(value, dict):
                    raise InvalidField("the settings are not an object")
                known[key] = self._decode(value)
            except Malformed as error:
                _log.warning(
                    "settings %s/%s are ignored, defaults apply: %s", self._path, key, error
                )
        self._known = known

    def get(self, key: str) -> C | None:
        """Return the settings of a group or topic, None if it has none of its own."""
        return self._known.get(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    async def put(self, key: str, config: C) -> None:
        """Store settings; two changes of one key are made in order. Raises ApiError."""
        async with self._lock:
            await self._put(key, config)

    async def add(self, key: str, config: C) -> None:
        """Store settings unless there are some. Raises ApiError."""
        async with self._lock:
            if key not in self._known:
                await self._put(key, config)

    def note(self, key: str, config: C) -> Coroutine[Any, Any, None]:
        """Have settings from now on where there are none; return the work that stores them.

        If they cannot be stored, there are none again.
        """
        self._known[key] = config
        return self._store_noted(key, config)

    async def _store_noted(self, key: str, config: C) -> None:
        async with self._lock:
            if self._known.get(key) is not config:
                return  # changed or deleted meanwhile
            try:
                await self._put(key, config)
            except ApiError:
                if self._known.get(key) is config:
                    del self._known[key]

    async def _put(self, key: str, config: C) -> None:
        path, value = f"{self._path}/{key}", encode_body(self._encode(config))
        try:
            try:
                await self._store.set(path, value)
            except NoNode:
                await self._make_path()
                await self._store.create(path, value)
        except StoreError as error:
            raise _unavailable(error) from error
        self._known[key] = config

    async def remove(self, key: str) -> None:
        """Delete settings, if there are some. Raises ApiError."""
        async with self._lock:
            try:
                with suppress(NoNode):
                    await self._store.delete(f"{self._path}/{key}")
            except StoreError as error:
                raise _unavailable(error) from error
            self._known.pop(key, None)

    async def _make_path(self) -> None:
        with suppress(NodeExists):
            await self._store.create(self._path, b"", parents=True)


class RemotingConfigs(NamedTuple):
    """The stored settings: of groups by name, of topics by topic id in hex, values of tools."""

    groups: StoredConfigs[GroupConfig]
    topics: StoredConfigs[TopicConfig]
    values: StoredConfigs[str]

    @classmethod
    def of(cls, store: Store) -> "RemotingConfigs":
        """Return the settings in a store, not loaded yet."""
        return cls(
            StoredConfigs(store, GROUPS, group_config, group_config_json),
            StoredConfigs(store, TOPICS, stored_topic_config, stored_topic_config_json),
            StoredConfigs(store, VALUES, _value, lambda value: {"value": value}),
        )


def _value(value: Mapping[str, FastJson]) -> str:
    found = value.get("value")
    if not isinstance(found, str):
        raise InvalidField("the value is not text")
    return found


def _unavailable(error: StoreError) -> ApiError:
    text = f"the metadata store is not available: {error}"
    return ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, text)
