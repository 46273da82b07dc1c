"""Any message of the Kafka protocol, as kio's entities, for property tests."""

import dataclasses
import datetime
import types
import typing
from functools import cache
from typing import Any

from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def _integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def _milliseconds(bits: int) -> st.SearchStrategy[datetime.timedelta]:
    most = min((1 << (bits - 1)) - 1, 10**12)
    return st.integers(-most, most).map(lambda ms: datetime.timedelta(milliseconds=ms))


PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "int8": _integers(8),
    "int16": _integers(16),
    "int32": _integers(32),
    "int64": _integers(64),
    "string": st.text(max_size=140),
    "bytes": st.binary(max_size=300),
    "records": st.binary(max_size=9000),
    "uint16": st.integers(0, (1 << 16) - 1),
    "uint32": st.integers(0, (1 << 32) - 1),
    "float64": st.floats(allow_nan=False, allow_infinity=False),
    "bool": st.booleans(),
    "uuid": st.uuids() | st.none(),
    "error_code": st.sampled_from(ErrorCode),
    "timedelta_i32": _milliseconds(32),
    "timedelta_i64": _milliseconds(64),
    "datetime_i64": st.integers(0, 4 * 10**12).map(
        lambda ms: EPOCH + datetime.timedelta(milliseconds=ms)
    ),
}


@cache
def messages(entity_type: type[Any]) -> st.SearchStrategy[Any]:
    """Any message of kio's type."""
    hints = typing.get_type_hints(entity_type)
    strategies = {}
    for field in dataclasses.fields(entity_type):
        strategies[field.name] = _values(hints[field.name], field.metadata.get("kafka_type"))
    if entity_type.__name__ == "SupportedFeatureKey":
        # Before v4 features from version 0 are left out on purpose.
        strategies["min_version"] = st.integers(1, 100)
    return st.builds(entity_type, **strategies)


def _values(hint: Any, kafka_type: str | None) -> st.SearchStrategy[Any]:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        inner = next(arg for arg in typing.get_args(hint) if arg is not type(None))
        return st.none() | _values(inner, kafka_type)
    if typing.get_origin(hint) is tuple:
        inner = typing.get_args(hint)[0]
        return st.lists(_values(inner, kafka_type), max_size=3).map(tuple)
    if kafka_type is not None:
        return PRIMITIVES[kafka_type]
    return messages(hint)
