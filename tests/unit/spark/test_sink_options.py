"""The sink's options are checked whole before anything is written, by what the source's are."""

import pytest

from headrace.record.compression import Codec
from headrace.spark.errors import OptionError
from headrace.spark.sink.sink_options import SinkOptions, parse_sink_options

ONE = {"kafka.bootstrap.servers": "127.0.0.1:9092", "pipeline": "p"}


def parse(**options: str) -> SinkOptions:
    named = {name.replace("__", "."): value for name, value in options.items()}
    return parse_sink_options(ONE | named, streaming=False)


def test_defaults_are_exactly_once_and_two_phases_where_the_brokers_have_them() -> None:
    options = parse()
    assert options.exactly_once
    assert options.two_phase is None
    assert options.codec is Codec.NONE
    assert (options.sink, options.client_id) == ("sink", "headrace-spark")
    assert options.transaction_timeout_ms == 900_000


def test_values_are_taken_without_regard_to_case() -> None:
    options = parse(
        DELIVERY=" At_Least_Once", kafka__compression__type="LZ4", twoPhaseCommit="FALSE",
        kafka__batch__size="1000", txnAppId="a", txnVersion="0",
    )  # fmt: skip
    assert not options.exactly_once
    assert options.codec is Codec.LZ4
    assert options.two_phase is False
    assert options.batch_bytes == 1000
    assert (options.application, options.version) == ("a", 0)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"delivery": "never"}, "delivery: 'never' is not one of exactly_once, at_least_once"),
        ({"kafka__compression__type": "rar"}, "kafka.compression.type: 'rar' is not one of none,"),
        ({"twoPhaseCommit": "1"}, "twoPhaseCommit: '1' is not one of auto, true, false"),
        ({"kafka__batch__size": "0"}, "kafka.batch.size: 0 is less than 1"),
        (
            {"kafka__batch__size": str(1 << 31)},
            "kafka.batch.size: 2147483648 is more than 2",
        ),
        ({"kafka__batch__size": "1k"}, "kafka.batch.size: '1k' is not a whole number"),
        ({"txnAppId": "a", "txnVersion": "-1"}, "txnVersion: -1 is less than 0"),
        ({"kafka__enable__idempotence": "false"}, "the sink always writes idempotently"),
        ({"kafka__enable__idempotence": "no"}, "idempotence: 'no' is neither true nor false"),
    ],
)
def test_what_is_wrong_is_refused_by_name(options: dict[str, str], complaint: str) -> None:
    with pytest.raises(OptionError, match=complaint):
        parse(**options)


def test_what_is_just_allowed_is_taken() -> None:
    most = str((1 << 31) - 1)
    options = parse(kafka__batch__size=most, sink="s" * 100, kafka__acks="-1")
    assert options.batch_bytes == (1 << 31) - 1
    assert parse(kafka__batch__size="1").batch_bytes == 1
    assert parse(txnAppId="a", txnVersion="0").version == 0


@pytest.mark.parametrize(
    "options", [{"sink": "s" * 101}, {"sink": "a.b"}, {"kafka__acks": "1"}, {"kafka__acks": "0"}]
)
def test_what_is_just_not_allowed_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(OptionError):
        parse(**options)
