"""Options are checked whole before any connection is made, and each complaint names its option."""

import json

import pytest

from headrace.arrow.read.columns import COLUMNS
from headrace.client.calls.offsets import EARLIEST, LATEST
from headrace.spark.errors import OptionError
from headrace.spark.source.options import Options, Strategy, parse_options
from headrace.spark.source.plan import Splitting

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
    assert parse(kafka__client__rack="r").ignored == ("kafka.client.rack",)


CONNECTORS = {
    "subscribe": "t", "startingOffsets": "earliest", "startingTimestamp": "1",
    "startingOffsetsByTimestamp": '{"t":{"0":1}}', "startingOffsetsByTimestampStrategy": "latest",
    "failOnDataLoss": "false", "minPartitions": "4", "maxRecordsPerPartition": "5",
    "maxOffsetsPerTrigger": "6", "minOffsetsPerTrigger": "3", "maxTriggerDelay": "1d",
    "includeHeaders": "true", "groupIdPrefix": "p", "kafka.group.id": "g",
    "kafkaConsumer.pollTimeoutMs": "7", "fetchOffset.numRetries": "8",
    "fetchOffset.retryIntervalMs": "9",
}  # fmt: skip
"""Every option of Spark's own connector that a stream takes; one of the three subscribes."""


def test_every_option_of_the_connector_has_its_meaning() -> None:
    parsed = parse_options(ONE | CONNECTORS, streaming=True)
    assert parsed.ignored == ()
    assert (parsed.starting.timestamp, parsed.starting.timestamps) == (1, {"t": {0: 1}})
    assert parsed.starting.latest_without_match
    assert not parsed.fail_on_data_loss
    assert parsed.splitting == Splitting(4, 5, None)
    assert (parsed.max_offsets, parsed.min_offsets) == (6, 3)
    assert parsed.max_trigger_delay_ms == 86_400_000
    assert parsed.columns == (*COLUMNS, "headers")
    assert parsed.group == "g"
    fetching = parsed.fetching
    assert (fetching.poll_timeout_ms, fetching.retries, fetching.retry_interval_ms) == (7, 8, 9)
    ending = {"endingOffsets": "latest", "endingTimestamp": "2"}
    by_time = {"endingOffsetsByTimestamp": '{"t":{"0":3}}'}
    batch = parse_options(ONE | ending | by_time, streaming=False)
    assert (batch.ending.timestamp, batch.ending.timestamps) == (2, {"t": {0: 3}})


def test_ours_are_taken_beside_the_connectors() -> None:
    parsed = parse(streaming=True, isolation__level="read_committed", maxBytesPerPartition="9")
    assert parsed.fetching.read_committed
    assert parsed.splitting.max_bytes == 9
    every = {"startingTimestamp": "1", "startingTimestampOn": "everyStart"}
    assert parse_options(ONE | every, streaming=True).start_by_time_always
    assert not parse(streaming=True, startingTimestamp="1").start_by_time_always
    assert parse_options(ONE | every, streaming=False).ignored == ("startingTimestampOn",)


def test_what_amqp_said_is_a_column_where_asked() -> None:
    assert parse(includeAmqp="true").columns == (*COLUMNS, "amqp")
    assert parse(includeAmqp="false").columns == COLUMNS
    both = parse(streaming=True, includeamqp="TRUE", includeHeaders="true")
    assert both.columns == (*COLUMNS, "headers", "amqp")
    assert parse(columns="AMQP, value").columns == ("amqp", "value")
    assert parse(columns="value", includeAmqp="true").columns == ("value",)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"subscribePattern": "t.*"}, "only one of subscribe, subscribePattern, assign"),
        ({"subscribe": " , "}, "subscribe: no topic named"),
        ({"startingOffset": "earliest"}, "startingOffset: no such option; did you mean starting"),
        ({"startingOffsets": "soon"}, "startingOffsets: must be earliest, latest, or like {"),
        ({"startingOffsets": "latest"}, "starts at latest reads nothing"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, "starts at latest reads nothing"),
        ({"startingOffsets": '{"t":{"0":-3}}'}, "-3 cannot be for t-0"),
        ({"startingOffsets": '{"t":[0]}'}, "startingOffsets: must be earliest, latest, or like {"),
        ({"endingOffsets": "earliest"}, "ends at earliest reads nothing"),
        ({"startingTimestamp": "noon"}, "startingTimestamp: 'noon' is not a whole number"),
        ({"startingOffsetsByTimestampStrategy": "x"}, "'x' is not one of error, latest"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss: 'maybe' is neither true nor false"),
        ({"minPartitions": "0"}, "minPartitions: 0 is less than 1"),
        ({"columns": "value,valu"}, "columns: 'valu' is not one of key, value"),
        ({"includeAmqp": "1"}, "includeAmqp: '1' is neither true nor false"),
        ({"includeAmpq": "true"}, "includeAmpq: no such option; did you mean includeAmqp"),
        ({"kafka.bootstrap.servers": "nowhere:port"}, "kafka.bootstrap.servers: 'nowhere:port'"),
        ({"kafka.auto.offset.reset": "x"}, "kafka.auto.offset.reset: cannot be set here"),
        ({"kafka.value.deserializer": "x"}, "kafka.value.deserializer: cannot be set here"),
        ({"kafka.fetch.max.byte": "1"}, "no such consumer setting; did you mean fetch.max.bytes"),
        ({"kafka.group.id": " "}, "kafka.group.id: an empty name is none"),
        ({"topic": "t"}, "topic: names where rows are written to; subscribe names what is read"),
        (
            {"isolation.level": "serializable"},
            "isolation.level: 'serializable' is not one of read_un",
        ),
        ({"maxBytesPerPartition": "0"}, "maxBytesPerPartition: 0 is less than 1"),
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
        ({"startingTimestampOn": "everyStart"}, "everyStart needs startingTimestamp or starting"),
        ({"startingTimestampOn": "x"}, "startingTimestampOn: 'x' is not one of firststart, every"),
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


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("500ms", 500), ("500", 500), (" 30 S ", 30_000), ("15m", 900_000), ("2min", 120_000),
        ("3h", 10_800_000), ("1d", 86_400_000), ("0s", 0),
    ],
)  # fmt: skip
def test_a_delay_has_its_unit(text: str, milliseconds: int) -> None:
    assert parse(streaming=True, maxTriggerDelay=text).max_trigger_delay_ms == milliseconds


def test_without_a_delay_a_batch_waits_for_a_quarter_of_an_hour() -> None:
    assert parse(streaming=True).max_trigger_delay_ms == 15 * 60 * 1000


def test_what_is_just_allowed_is_taken() -> None:
    least = parse(
        startingOffsets='{"t":{"0":-2,"1":0}}', kafka__fetch__min__bytes="0",
        kafka__fetch__max__wait__ms="0", fetchOffset__numRetries="0", minPartitions="1",
    )  # fmt: skip
    assert least.starting.offsets == {"t": {0: EARLIEST, 1: 0}}
    assert (least.fetching.min_bytes, least.fetching.max_wait_ms) == (0, 0)
    assert (least.fetching.retries, least.splitting.min_partitions) == (0, 1)
    times = parse(startingTimestamp="0", startingOffsetsByTimestamp='{"t":{"0":0}}')
    assert (times.starting.timestamp, times.starting.timestamps) == (0, {"t": {0: 0}})
    equal = parse(streaming=True, minOffsetsPerTrigger="5", maxOffsetsPerTrigger="5")
    assert (equal.min_offsets, equal.max_offsets) == (5, 5)
    first = parse_options(
        {"kafka.bootstrap.servers": "h:1", "assign": '{"t":[0,3,0]}'}, streaming=False
    )
    assert first.subscription.assigned == (("t", (0, 3)),)


@pytest.mark.parametrize("options", [{"startingTimestampMs": "1"}, {"assign": '{"t":[-1]}'}])
def test_what_is_just_not_allowed_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(OptionError):
        parse_options({"kafka.bootstrap.servers": "h:1"} | options, streaming=False)


def test_a_time_outweighs_offsets_that_would_read_nothing() -> None:
    for time in ({"startingTimestamp": "5"}, {"startingOffsetsByTimestamp": '{"t":{"0":5}}'}):
        parsed = parse(False, **time, startingOffsets="latest")
        assert parsed.starting.offsets == LATEST


def test_either_name_of_the_isolation_is_taken_and_the_short_one_outweighs() -> None:
    assert parse(kafka__isolation__level="read_committed").fetching.read_committed
    both = parse(kafka__isolation__level="read_committed", isolation__level="read_uncommitted")
    assert not both.fetching.read_committed


def test_a_named_group_outweighs_the_beginning_of_one() -> None:
    assert parse(streaming=True, groupIdPrefix="p").group_prefix == "p"
    named = parse(streaming=True, groupIdPrefix="p", kafka__group__id="g")
    assert (named.group, named.group_prefix) == ("g", None)


def test_columns_are_there_once() -> None:
    assert parse(columns=" Value , offset ,").columns == ("value", "offset")
    for wrong in ("value,VALUE", ",", ""):
        with pytest.raises(OptionError, match="names none, or one twice"):
            parse(columns=wrong)


def test_a_pattern_is_of_whole_names() -> None:
    options = {"kafka.bootstrap.servers": "h:1", "subscribePattern": "orders|t.*"}
    matches = parse_options(options, streaming=False).subscription.matches
    assert [matches(name) for name in ("orders", "orders2", "my.orders", "t1", "x")] == [
        True, False, False, True, False,
    ]  # fmt: skip


def test_topics_and_brokers_must_be_named() -> None:
    with pytest.raises(OptionError, match="one of subscribe, subscribePattern, assign"):
        parse_options({"kafka.bootstrap.servers": "h:1"}, streaming=False)
    with pytest.raises(OptionError, match=r"kafka\.bootstrap\.servers: missing"):
        parse_options({"subscribe": "t"}, streaming=False)
    options = {"kafka.bootstrap.servers": "h:1", "assign": json.dumps({"t": ["0"]})}
    with pytest.raises(OptionError, match="assign: must be like"):
        parse_options(options, streaming=False)
    options["assign"] = '{"s":[0],"t":[]}'
    with pytest.raises(OptionError, match="assign: no partition of t is named"):
        parse_options(options, streaming=False)


@pytest.mark.parametrize(
    ("name", "value", "takes"),
    [
        ("startingOffsets", "erliest", "earliest, latest, or like "),
        ("endingOffsets", "end", "latest, or like "),
        ("startingOffsetsByTimestamp", "now", "like "),
    ],
)
def test_refused_offsets_error_names_the_accepted_values(name: str, value: str, takes: str) -> None:
    with pytest.raises(OptionError, match=f"^{name}: must be {takes}.*, not '{value}'$"):
        parse(False, **{name: value})
