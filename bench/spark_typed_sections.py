"""Rows of `make bench-spark` for typed topics: JSON as columns, beside Spark's `from_json`."""

from collections.abc import Sequence
from functools import partial

from bench.json_lines import BATCH_RECORDS, line_batches
from bench.report import Goal
from bench.sections import Found, Section
from bench.spark_flows import ROWS, WARM_BATCHES
from bench.spark_scan import fill
from bench.spark_sides import CONNECTOR, Side, having, sides_of
from bench.spark_typed import (
    FROM_JSON,
    OURS_TABLE,
    ROW_BYTES_MAX,
    SPARK_PARQUET,
    VALUE_SCHEMA,
)
from bench.subjects import Subject, in_turn

ROUNDS_MAX = 9
RECORDS = 5_000_000
FLOWS, FLOW_BATCHES, FLOW_BATCHES_MIN = 10, 20, 5
BACKLOG = 3
"""Of a flow, in what the slowest flow reads: a faster one finds rows until that one has ended."""
MALFORMED = {0.01: 1.1, 0.3: 1.5}
"""Most time that a scan of so many malformed records takes, of a clean one's."""
MODES = ("PERMISSIVE", "DROPMALFORMED")
TOPIC = "typed"
OF_FROM_JSON = "of our source + from_json's rows/s"
BY_SPARK = "by Spark's Parquet writer: rows/s"
UNDECLARED = "without rowBytesMax: "
P50, TRIGGER_MS = "p50 ms", 10_000


def of_clean(mode: str, share: float) -> str:
    """Return the name of what a scan of malformed records takes."""
    return f"{mode}, {share:.0%} malformed: of a clean scan's time"


def _parser(side: Side) -> str:
    return VALUE_SCHEMA if side.headrace else FROM_JSON


def _filled(side: Side, topic: str, records: int, malformed: float = 0.0) -> int:
    batches = line_batches(records, malformed)
    return fill(
        side.broker.bootstrap, side.topic(topic), records, batches=batches,
        batch_records=BATCH_RECORDS,
    )  # fmt: skip


def _digest(sides: Sequence[Side], records: int) -> list[str]:
    """Fill a topic of each side; the digest of its rows by each parser, which is to be the same."""
    digests = {}
    for side in sides:
        written = _filled(side, TOPIC, records)
        for parser in dict.fromkeys([_parser(side), FROM_JSON]):
            arguments = (side.format, side.broker.bootstrap, TOPIC, parser)
            found = side.spark.call("spark_typed", "digest", *arguments)
            if int(found[0]) != written:
                raise RuntimeError(f"{side.name}: {found[0]} rows of {written} records")
            digests[f"{side.name}, {parser}"] = found
    first, *others = digests.values()
    if any(other != first for other in others):
        raise RuntimeError(f"the rows differ: {digests}")
    return list(first)


def to_parquet(records: int, subjects: Sequence[Subject], rounds: int) -> Found:
    """A topic into Parquet files: ours by `headrace-table`, with the size of its rows declared
    (docs/spark.md) and without, and by Spark's writer."""
    able, unable = having(subjects, "spark_typed", "write")
    for subject in unable:
        yield subject.name, {}
    declaring = {subject.name for subject in having(able, "spark_typed", "declare_rows")[0]}
    with sides_of(able) as sides:
        wanted = _digest(sides, records)
        written = int(wanted[0])

        def measure(side: Side, sink: str, what: str = "") -> dict[str, float]:
            arguments = (side.format, side.broker.bootstrap, TOPIC, _parser(side), sink)
            seconds, cpu, held = side.spark.call("spark_typed", "write", *arguments)
            if held != wanted:
                raise RuntimeError(f"{side.name}, {sink}: {held} instead of {wanted}")
            return {
                f"{what}rows/s": written / seconds,
                f"{what}CPU-s/M rows": cpu * 1e6 / written,
            }

        for number in range(1 + rounds):
            for side in in_turn(sides, number):
                if not side.headrace:
                    figures = measure(side, SPARK_PARQUET)
                else:
                    figures = {}
                    if side.name in declaring:
                        side.spark.call("spark_typed", "declare_rows", ROW_BYTES_MAX)
                        figures |= measure(side, OURS_TABLE)
                        side.spark.call("spark_typed", "declare_rows", 0)
                    figures |= measure(side, OURS_TABLE, UNDECLARED if figures else "")
                    figures[BY_SPARK] = measure(side, SPARK_PARQUET)["rows/s"]
                if number:  # the JVM compiles in the first
                    yield side.name, figures


def scans(records: int, subjects: Sequence[Subject], rounds: int) -> Found:
    """A scan into noop: ours by `valueSchema`, and by `from_json` in the same session."""
    able, unable = having(subjects, "spark_typed", "scan")
    for subject in unable:
        yield subject.name, {}
    with sides_of(able) as sides:
        written = int(_digest(sides, records)[0])
        for number in range(1 + rounds):
            for side in in_turn(sides, number):
                rates, cpus = {}, {}
                for parser in in_turn(list(dict.fromkeys([_parser(side), FROM_JSON])), number):
                    arguments = (side.format, side.broker.bootstrap, TOPIC, parser)
                    seconds, cpu = side.spark.call("spark_typed", "scan", *arguments)
                    rates[parser], cpus[parser] = written / seconds, cpu * 1e6 / written
                own = _parser(side)
                figures = {"rows/s": rates[own], "CPU-s/M rows": cpus[own]}
                if side.headrace:
                    figures["our source + from_json: rows/s"] = rates[FROM_JSON]
                    figures[OF_FROM_JSON] = rates[own] / rates[FROM_JSON]
                if number:
                    yield side.name, figures


def malformed_scans(records: int, subjects: Sequence[Subject], rounds: int) -> Found:
    """Scans of topics with malformed values beside a clean one. The connector has none."""
    able, unable = having(
        [subject for subject in subjects if subject is not CONNECTOR], "spark_typed", "scan"
    )
    for subject in unable:
        yield subject.name, {}
    with sides_of(able) as sides:
        topics = {share: f"{TOPIC}-{share:g}" for share in (0.0, *MALFORMED)}
        for side in sides:
            for share, topic in topics.items():
                written = _filled(side, topic, records, share)
        for number in range(1 + rounds):
            for side in in_turn(sides, number):
                for mode in MODES:
                    taken = {}
                    for share in in_turn(list(topics), number):
                        place = (side.format, side.broker.bootstrap, topics[share])
                        arguments = (*place, VALUE_SCHEMA, mode)
                        taken[share], _ = side.spark.call("spark_typed", "scan", *arguments)
                    figures = {f"{mode}, clean: rows/s": written / taken[0.0]}
                    figures |= {
                        of_clean(mode, each): taken[each] / taken[0.0] for each in MALFORMED
                    }
                    if number:
                        yield side.name, figures


def flows(batches: int, subjects: Sequence[Subject], rounds: int) -> Found:
    """Ten streaming queries of typed topics into Parquet in one session."""
    able, unable = having(subjects, "spark_flows", "measure")
    for subject in unable:
        yield subject.name, {}
    topics = [f"{TOPIC}-{number}" for number in range(FLOWS)]
    with sides_of(able) as sides:
        for side in sides:
            for topic in topics:
                _filled(side, topic, ROWS * (WARM_BATCHES + batches) * BACKLOG)
        for number in range(1 + rounds):
            for side in in_turn(sides, number):
                sink = OURS_TABLE if side.headrace else SPARK_PARQUET
                place = (side.format, side.broker.bootstrap, topics)
                arguments = (*place, _parser(side), sink, batches)
                found = side.spark.call("spark_flows", "measure", *arguments)
                if number:
                    yield side.name, found


def typed_sections(scale: float) -> list[Section]:
    """Every row of typed topics; `scale` shrinks all of them."""
    records = int(RECORDS * scale)
    data = "JSON of 7 fields"
    return [
        Section(
            f"{data} to Parquet, zstd, beside from_json",
            partial(to_parquet, records),
            seconds_max=900,
            rounds_max=ROUNDS_MAX,
            goals={"rows/s": Goal(least=3.5)},
        ),
        Section(
            f"{data}, typed scan, all columns, noop, beside from_json",
            partial(scans, records),
            seconds_max=900,
            rounds_max=ROUNDS_MAX,
            goals={"rows/s": Goal(least=3)},
            ceilings={OF_FROM_JSON: Goal(least=2)},
        ),
        Section(
            f"{data}, typed scan of malformed values, all columns, noop",
            partial(malformed_scans, records),
            seconds_max=900,
            rounds_max=ROUNDS_MAX,
            ceilings={
                of_clean(mode, share): Goal(most=most)
                for mode in MODES for share, most in MALFORMED.items()
            },
        ),
        Section(
            f"{data}, ten flows to Parquet in one session, batches of 1,000 rows",
            partial(flows, max(FLOW_BATCHES_MIN, int(FLOW_BATCHES * scale))),
            seconds_max=900,
            rounds_max=ROUNDS_MAX,
            # The default trigger of tables: a flow is done before its next batch is due.
            ceilings={P50: Goal(most=TRIGGER_MS)},
        ),
    ]  # fmt: skip
