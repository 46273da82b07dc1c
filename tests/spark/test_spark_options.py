"""Options are checked whole before any connection is made, and each complaint names its option."""

import json

import pytest

from headrace.arrow.columns import COLUMNS
from headrace.client.offsets import EARLIEST, LATEST
from headrace.spark.errors import OptionError
from headrace.spark.options import Options, Strategy, parse_options

ONE = {"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "t"}


def parse(streaming: bool = False, **options: str) -> Options:
    named = {name.replace("__", "."): value for name, value in options.items()}
    return parse_options(ONE | named, streaming=streaming)


def test_defaults_are_the_connectors() -> None:
    batch, stream = parse(), parse(streaming=True)
    assert (batch.starting.offsets, batch.ending.offsets) == (EARLIEST, LATEST)
    assert stream.starting.offsets == LATEST
    assert batch.fail_on_data_loss
    assert batch.columns == COLUMNS
    assert batch.subscription.strategy is Strategy.SUBSCRIBE
    assert not batch.fetching.read_committed


def test_names_are_case_insensitive_and_bootstrap_has_a_short_form() -> None:
    options = {"BOOTSTRAP.servers": "h:1", "SUBSCRIBE": " a , b,a", "includeheaders": "TRUE"}
    parsed = parse_options(options, streaming=False)
    assert parsed.bootstrap == "h:1"
    assert parsed.subscription.topics == ("a", "b")
    assert parsed.columns[-1] == "headers"


def test_kafka_settings_that_matter_are_taken() -> None:
    parsed = parse(
        kafka__isolation__level="read_committed",
        kafka__max__partition__fetch__bytes="1000",
        kafka__group__id="g",
        groupIdPrefix="p",
    )
    assert parsed.fetching.read_committed
    assert parsed.fetching.partition_bytes == 1000
    assert (parsed.group, parsed.group_prefix) == ("g", None)


def test_what_does_nothing_here_is_told_not_refused() -> None:
    assert parse(kafka__session__timeout__ms="1").ignored == ("kafka.session.timeout.ms",)
    assert parse(maxOffsetsPerTrigger="5").ignored == ("maxOffsetsPerTrigger",)
    assert parse(streaming=True, maxOffsetsPerTrigger="5").max_offsets == 5


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"subscribePattern": "t.*"}, "only one of subscribe, subscribePattern, assign"),
        ({"subscribe": " , "}, "subscribe: no topic named"),
        ({"startingOffset": "earliest"}, "startingOffset: no such option; did you mean starting"),
        ({"startingOffsets": "soon"}, "startingOffsets: must be like"),
        ({"startingOffsets": "latest"}, "starts at latest reads nothing"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, "starts at latest reads nothing"),
        ({"startingOffsets": '{"t":{"0":-3}}'}, "-3 cannot be for t-0"),
        ({"startingOffsets": '{"t":[0]}'}, "startingOffsets: must be like"),
        ({"endingOffsets": "earliest"}, "ends at earliest reads nothing"),
        ({"startingTimestamp": "noon"}, "startingTimestamp: 'noon' is not a whole number"),
        ({"startingOffsetsByTimestampStrategy": "x"}, "'x' is none of error, latest"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss: 'maybe' is neither true nor false"),
        ({"minPartitions": "0"}, "minPartitions: 0 is less than 1"),
        ({"columns": "value,valu"}, "columns: 'valu' is none of key, value"),
        ({"kafka.bootstrap.servers": "nowhere:port"}, "kafka.bootstrap.servers: 'nowhere:port'"),
        ({"kafka.auto.offset.reset": "x"}, "kafka.auto.offset.reset: cannot be set here"),
        ({"kafka.value.deserializer": "x"}, "kafka.value.deserializer: cannot be set here"),
        ({"kafka.sasl.mechanism": "PLAIN"}, "kafka.sasl.mechanism: this source speaks plain text"),
        ({"kafka.security.protocol": "SSL"}, "kafka.security.protocol: SSL is not spoken"),
        ({"kafka.fetch.max.byte": "1"}, "no such consumer setting; did you mean fetch.max.bytes"),
        ({"kafka.group.id": " "}, "kafka.group.id: an empty name is none"),
    ],
)
def test_what_is_wrong_is_refused_by_name(options: dict[str, str], complaint: str) -> None:
    with pytest.raises(OptionError, match=complaint):
        parse_options(ONE | options, streaming=False)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"endingOffsets": "latest"}, "endingOffsets: a streaming query has no end"),
        ({"maxTriggerDelay": "soon"}, "maxTriggerDelay: 'soon' is not like 15m"),
        (
            {"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"},
            "minOffsetsPerTrigger: 5 is more than maxOffsetsPerTrigger 4",
        ),
    ],
)
def test_what_is_wrong_in_a_stream_is_refused_by_name(
    options: dict[str, str], complaint: str
) -> None:
    with pytest.raises(OptionError, match=complaint):
        parse_options(ONE | options, streaming=True)


def test_topics_and_brokers_must_be_named() -> None:
    with pytest.raises(OptionError, match="one of subscribe, subscribePattern, assign"):
        parse_options({"kafka.bootstrap.servers": "h:1"}, streaming=False)
    with pytest.raises(OptionError, match=r"kafka\.bootstrap\.servers: missing"):
        parse_options({"subscribe": "t"}, streaming=False)
    options = {"kafka.bootstrap.servers": "h:1", "assign": json.dumps({"t": ["0"]})}
    with pytest.raises(OptionError, match="assign: must be like"):
        parse_options(options, streaming=False)
