"""An authorizer that refuses what a test names, and requests and answers of any API as entities."""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import SimpleNamespace
from typing import Any, get_args, get_type_hints

from headrace.broker.broker import Broker
from headrace.frontends.kafka.authentication.authorisation import Ask
from headrace.frontends.kafka.connection.dispatch import Dispatcher, KafkaSession
from headrace.frontends.kafka.connection.refusals import _nothing
from headrace.frontends.kafka.connection.registry import APIS
from headrace.net.pending import Pending
from headrace.ports.store import Store
from headrace.security.authorizer import Operation, Resource, ResourceType
from headrace.security.identity import ANONYMOUS, Identity
from headrace.wire.kafka import kio_codec
from headrace.wire.kafka.api import ApiKey, response_header_version
from headrace.wire.kafka.frame import request_head
from tests.support.processes.broker import Room
from tests.support.processes.runs import answered


class Rules:
    """Refuses what it is told to, and keeps what it was asked. `Authorizer`."""

    allows_all = False

    def __init__(self, *refused: Ask, to: Identity | None = None) -> None:
        """`to`: who is refused; None: everybody."""
        self.version = 1
        self.to = to
        self.refused = frozenset(refused)
        self.asked: list[tuple[str, Ask, str]] = []

    def change(self, *refused: Ask) -> None:
        """Refuse this from now on, and nothing else."""
        self.refused = frozenset(refused)
        self.version += 1

    def allows(self, identity: Identity, operation: Operation, resource: Resource) -> bool:
        ask = Ask(operation, resource.kind)
        self.asked.append((identity.principal.name, ask, resource.name))
        return ask not in self.refused or self.to not in (None, identity)

    def allows_any(self, identity: Identity, operation: Operation, kind: ResourceType) -> bool:
        ask = Ask(operation, kind)
        self.asked.append((identity.principal.name, ask, "*"))
        return ask not in self.refused


def entity(entity_type: type[Any], values: Mapping[str, Any]) -> Any:
    """An entity of kio's of plain values; what is not named is the least there is."""
    hints = get_type_hints(entity_type)
    filled: dict[str, Any] = {}
    names = {field.name for field in fields(entity_type)}
    assert set(values) <= names, f"{entity_type}: {set(values) - names}"
    for field in fields(entity_type):
        if field.name in values:
            filled[field.name] = _value(_nested(hints[field.name]), values[field.name])
        elif field.default is MISSING and field.default_factory is MISSING:
            filled[field.name] = _nothing(hints[field.name])
    return entity_type(**filled)


def _value(nested: type[Any] | None, value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_value(nested, one) for one in value)
    if isinstance(value, dict):
        assert nested is not None
        return entity(nested, value)
    return value


def _nested(hint: Any) -> type[Any] | None:
    if isinstance(hint, type) and is_dataclass(hint):
        return hint
    return next(filter(None, map(_nested, get_args(hint))), None)


def open_session(
    here: Room, identity: Identity, dispatcher: Dispatcher | None = None
) -> tuple[Dispatcher, KafkaSession]:
    """A connection of somebody who is known; stop the dispatcher.

    `dispatcher`: of an earlier one. What connections of a broker share they share by it.
    """
    dispatcher = dispatcher or Dispatcher(
        here.broker, here.coordinators, here.controller, APIS, here.broker.metrics
    )
    peer: Any = SimpleNamespace(
        address=identity.host,
        listener=identity.listener,
        port=1,
        principal=ANONYMOUS,
        waits=False,
        authenticated=True,
        known=lambda: None,
    )
    session = KafkaSession(dispatcher, peer)
    session.authenticated(identity)
    return dispatcher, session


def frame_of(key: ApiKey, version: int, values: Mapping[str, Any]) -> bytes:
    """A whole request, length first."""
    body = kio_codec.encode_body(entity(kio_codec.request_type(key, version), values))
    return request_head(key, version, 7, "test", len(body)) + body


async def call(
    here: Room, session: KafkaSession, key: ApiKey, version: int, values: Mapping[str, Any]
) -> Any:
    """Ask one request through the session, as its connection does; the answer as an entity.

    Time passes while it is waited for.
    """
    frame = memoryview(bytearray(frame_of(key, version, values)))
    answer = session.frame(frame[4:])
    session.pass_done()
    clock: Any = here.server.clock
    async with asyncio.timeout(60):  # the store's thread takes the time it takes
        while isinstance(answer, Pending) and not answer.done:
            clock.advance(0.001)
            await asyncio.sleep(0.0005)
    whole = await answered(answer)
    head = 9 if response_header_version(key, version) == 1 else 8
    return kio_codec.decode_response(key, version, memoryview(whole)[head:])


def errors(answer: Any) -> set[tuple[str, int]]:
    """The error codes of an answer but NONE, each with the names of the fields that lead to it."""
    return {(path, code) for path, code in _codes(answer, "") if code}


def _codes(value: Any, path: str) -> Iterator[tuple[str, int]]:
    if isinstance(value, tuple):
        for one in value:
            yield from _codes(one, path)
    elif is_dataclass(value):
        for field in fields(value):
            found = getattr(value, field.name)
            if field.name.endswith("error_code"):
                yield f"{path}{field.name}", int(found)
            else:
                yield from _codes(found, f"{path}{field.name}.")


async def state_of(here: Room) -> list[Any]:
    """All of a broker that a request could have changed."""
    return await all_state(here.broker, here.store)


async def all_state(broker: Broker, store: Store) -> list[Any]:
    """The same of a broker by itself, and its metadata store."""
    logs = {
        key: (one.log.start_offset, one.log.end_offset) for key, one in broker.partitions.items()
    }
    image, settings = broker.image, broker.config
    return [image.version, logs, settings, dict(broker.quotas.limits), await all_nodes(store)]


async def all_nodes(store: Store, path: str = "") -> list[tuple[str, bytes]]:
    """All nodes of a metadata store below a path, each with what is in it."""
    found: list[tuple[str, bytes]] = []
    for name in sorted(await store.children(path or "/")):
        child = f"{path}/{name}"
        found.append((child, (await store.get(child)).value))
        found += await all_nodes(store, child)
    return found
