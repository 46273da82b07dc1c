"""No hot message is whole without its last byte: what it ends with is read, tags included."""

import pytest

from headrace.model.errors import Malformed
from headrace.wire.kafka import kio_codec
from headrace.wire.kafka.api import ApiKey
from tests.property.wire.test_wire_hot import CASES, CODECS
from tests.unit.wire.test_bytes_of_elements import arrays, least


@pytest.mark.parametrize(("key", "version", "part"), CASES)
def test_a_message_without_its_last_byte_is_malformed(key: ApiKey, version: int, part: str) -> None:
    entity_type = getattr(kio_codec, f"{part}_type")(key, version)
    decode = getattr(CODECS[key], f"decode_{part}")
    for path in [(), *arrays(entity_type)]:
        wire = kio_codec.encode_body(least(entity_type, path, 1))
        decode(version, memoryview(bytearray(wire)))
        if wire:
            with pytest.raises(Malformed):
                decode(version, memoryview(bytearray(wire[:-1])))
