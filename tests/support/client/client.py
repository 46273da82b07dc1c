"""A client of a broker without sockets: frames in, frames out, through the dispatcher."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from headrace.frontends.kafka.connection.dispatch import Dispatcher, KafkaSession
from headrace.frontends.kafka.connection.registry import APIS
from headrace.net.pending import Pending
from headrace.security.identity import ANONYMOUS
from headrace.wire.kafka import kio_codec
from headrace.wire.kafka.api import ApiKey, response_header_version
from tests.support.processes.broker import Room

LOOKS_MAX = 20_000
LOOK_SECONDS = 0.001


class FrameClient:
    """One connection. Requests are kio's entities by their fields."""

    def __init__(self, here: Room) -> None:
        dispatcher = Dispatcher(
            here.broker, here.coordinators, here.controller, APIS, here.broker.metrics
        )
        nobody: Any = SimpleNamespace(
            address="127.0.0.1", listener="PLAINTEXT", port=1, principal=ANONYMOUS, waits=False
        )
        self._session = KafkaSession(dispatcher, nobody)

    async def ask(self, key: ApiKey, version: int, **fields: Any) -> Any:
        """The answer, decoded."""
        request = kio_codec.request_type(key, version)
        known = request.__dataclass_fields__
        entity = request(**{name: value for name, value in fields.items() if name in known})
        frame = memoryview(bytearray(kio_codec.encode_request(entity, 7, "test")))
        answer = self._session.frame(frame[4:])
        self._session.pass_done()
        if isinstance(answer, Pending):
            for _ in range(LOOKS_MAX):
                if answer.done:
                    break
                await asyncio.sleep(LOOK_SECONDS)
            assert answer.done, f"{key.name} is not answered"
            answer = answer.parts()
        assert answer is not None
        whole = answer if isinstance(answer, bytes) else b"".join(cast("list[bytes]", answer))
        head = 8 + response_header_version(key, version)
        return kio_codec.decode_response(key, version, memoryview(whole)[head:])

    @staticmethod
    def part(key: ApiKey, version: int, part_name: str, /, **fields: Any) -> Any:
        """An entity of a request."""
        entity = getattr(kio_codec.entity_module(key, version).request, part_name)
        known = entity.__dataclass_fields__
        return entity(**{name: value for name, value in fields.items() if name in known})
