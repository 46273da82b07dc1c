"""The plain decoder and the kernel do what the type table says."""

from typing import Any

import pyarrow as pa
import pytest

from headrace.arrow.typed.json_decoder import JsonDecoder
from headrace.typed.ddl import parse_ddl
from headrace.typed.plain import decode_record
from headrace.typed.refusal import MALFORMED, Fault, Refusal
from tests.support.same_values import same
from tests.support.type_table import CASES, DDL, RECORDS, Case, RecordCase


def by_kernel(value: bytes, ddl: str) -> Any:
    """Decode one value; return the row or the refusal."""
    (found,) = JsonDecoder(ddl).decode(pa.array([value], pa.binary()))
    found.batch.validate(full=True)
    for refused in found.refused:
        return refused.refusal
    return found.batch.to_pylist()[0]


def check(got: dict[str, Any] | Refusal, expected: object, column: str) -> None:
    """Compare a row or a refusal with the table's entry."""
    if isinstance(expected, Fault):
        assert isinstance(got, Refusal), got
        assert got.fault is expected
    else:
        assert isinstance(got, dict), got
        assert same(got[column], expected), got


@pytest.mark.parametrize("name", DDL)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.json)
def test_plain_decoder_follows_the_type_table(case: Case, name: str) -> None:
    value = b'{"v":%s}' % case.json.encode()
    check(decode_record(value, parse_ddl(f"v {DDL[name]}")), case.of(name), "v")


@pytest.mark.parametrize("name", DDL)
def test_kernel_follows_the_type_table(name: str) -> None:
    pytest.importorskip("numba")
    for case in CASES:
        value = b'{"v":%s}' % case.json.encode()
        ddl = f"v {DDL[name]}"
        got = by_kernel(value, ddl)
        check(got, case.of(name), "v")
        judged = decode_record(value, parse_ddl(ddl))
        assert same(got, judged) or got == judged, value


@pytest.mark.parametrize("case", RECORDS, ids=lambda case: case.note)
def test_both_decoders_follow_the_table_of_records(case: RecordCase) -> None:
    pytest.importorskip("numba")
    got = by_kernel(case.record, "id BIGINT")
    check(decode_record(case.record, parse_ddl("id BIGINT")), case.got, "id")
    if isinstance(case.got, Fault) and case.got in MALFORMED:
        # Of a record that is not JSON, the kernel may find a value of the wrong type first.
        assert isinstance(got, Refusal)
    else:
        check(got, case.got, "id")
