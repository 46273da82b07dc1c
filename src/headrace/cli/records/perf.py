"""`headrace perf`: measure a cluster's throughput and latency from this machine."""

import random
import sys
import time
from typing import Annotated

from cyclopts import App, Parameter

from headrace.cli.records.sending import Acks, Compression, now_ms
from headrace.client.calls.offsets import EARLIEST, LATEST, list_offsets
from headrace.client.client import Client
from headrace.client.consumer.consumer import Consumer
from headrace.client.producer.producer import Producer
from headrace.client.sync import run
from headrace.model.nouns import TopicPartition
from headrace.record.compression import Codec
from headrace.terminal.broker_options import BrokerOptions, Json, check_seconds
from headrace.terminal.failure import UsageError, not_found
from headrace.terminal.output import note, print_json, print_line
from headrace.terminal.perf_figures import Figures

app = App(name="perf", help="Measure the throughput and latency of a cluster.")

RECORD_BYTES_MAX = 64 << 20
RECORDS_AT_ONCE = 100
"""Records sent between two checks of the time."""
PAYLOADS = 64
"""Number of different values, sent in turn."""

Records = Annotated[
    int,
    Parameter(
        name=["--records", "--num-records", "--messages"], show_default=True, help="How many."
    ),
]


@app.command
def produce(
    topic: str,
    *,
    records: Records = 1_000_000,
    record_size: Annotated[
        int, Parameter(show_default=True, help="Random bytes in a record's value.")
    ] = 100,
    throughput: Annotated[
        float, Parameter(show_default=True, help="The most records per second; -1: no limit.")
    ] = -1,
    acks: Annotated[
        Acks, Parameter(show_default=True, help="Acknowledgements: all, 1 (leader) or 0 (none).")
    ] = "all",
    compression: Annotated[
        Compression, Parameter(name=["--compression", "-z"], help="Compression of batches.")
    ] = "none",
    batch_size: Annotated[
        int, Parameter(show_default=True, help="Bytes of a batch before compression.")
    ] = 16_384,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008 - a frozen value
) -> None:
    """Measure produce throughput and latency.

    The latency of a record is the time from its batch's first record to the acknowledgement of
    the batch. For example: headrace perf produce t --records 100000
    --record-size 1000 --throughput 5000
    """
    _check_least(
        ("--records", records), ("--record-size", record_size), ("--batch-size", batch_size)
    )
    if record_size > RECORD_BYTES_MAX:
        raise UsageError(f"--record-size {record_size}: at most {RECORD_BYTES_MAX}")
    if throughput != -1 and not 0 < throughput < float("inf"):
        raise UsageError(f"--throughput {throughput:g}: must be more than 0, or -1 for no limit")
    figures = Figures("acknowledged", "latency")
    with cluster.client() as client:
        producer = Producer(
            client,
            acks=-1 if acks in {"all", "-1"} else int(acks),
            compression=Codec[compression.upper()],
            batch_bytes=batch_size,
        )
        run(producer.partitions(topic))
        producer.on_delivered = lambda count, size, taken_ms: figures.add(
            count, count * record_size, now_ms() - taken_ms
        )
        figures.begin()
        run(_send(producer, figures, topic, records, record_size, throughput))
    _report(topic, figures, json=json)


async def _send(
    producer: Producer, figures: Figures, topic: str, records: int, size: int, throughput: float
) -> None:
    payloads = [random.randbytes(size) for _ in range(PAYLOADS)]  # noqa: S311 - guards nothing
    began, sent = time.monotonic(), 0
    # With a rate limit bursts are short: a hundredth of a second's records.
    step = (
        RECORDS_AT_ONCE if throughput < 0 else max(1, min(RECORDS_AT_ONCE, int(throughput / 100)))
    )
    while sent < records:
        now = now_ms()
        for at in range(sent, min(sent + step, records)):
            await producer.send(topic, payloads[at % PAYLOADS], timestamp=now)
        sent = min(sent + step, records)
        figures.show()
        if throughput > 0:
            due = began + sent / throughput
            if time.monotonic() < due:
                # Time is left: responses are read now, not when the next records are sent.
                await producer.flush()
                time.sleep(max(0.0, due - time.monotonic()))  # noqa: ASYNC251 - on plain sockets
    await producer.flush()


@app.command
def consume(
    topic: str,
    *,
    records: Records = 1_000_000,
    timeout: Annotated[
        float,
        Parameter(show_default=True, help="Stop if no record arrives for this many seconds."),
    ] = 10.0,
    from_latest: Annotated[
        bool, Parameter(help="Start at the end, not at the first offset.")
    ] = False,
    fetch_size: Annotated[
        int, Parameter(show_default=True, help="The most bytes of a partition in a response.")
    ] = 1 << 20,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008 - a frozen value
) -> None:
    """Measure consume throughput and fetch latency.

    Batches are checked and counted, but their records are not decoded. For
    example: headrace perf consume t --records 100000
    """
    _check_least(("--records", records), ("--fetch-size", fetch_size))
    check_seconds("--timeout", timeout)
    figures = Figures("read", "fetch")
    with cluster.client() as client:
        consumer = Consumer(
            client,
            _positions(client, topic, LATEST if from_latest else EARLIEST),
            partition_max_bytes=fetch_size,
        )
        figures.begin()
        _read(consumer, figures, records, timeout)
    _report(topic, figures, json=json)


def _read(consumer: Consumer, figures: Figures, records: int, timeout: float) -> None:
    last = time.monotonic()
    while figures.records < records:
        asked = time.monotonic()
        chunks = run(consumer.poll())
        now = time.monotonic()
        for chunk in chunks:
            for header, batch in chunk.batches():
                figures.add(header.record_count, len(batch), (now - asked) * 1000)
        figures.show()
        if chunks:
            last = now
        elif now - last >= timeout:
            figures.end_at(last)
            note(f"no record arrived for {timeout:g} s: stopped")
            return


def _positions(client: Client, topic: str, where: int) -> dict[TopicPartition, int]:
    known = run(client.metadata([topic]))
    if topic not in known.topics or known.topics[topic].error_code:
        raise not_found("topic", topic, sorted(run(client.metadata()).topics))
    places = [TopicPartition(topic, each.partition) for each in known.topics[topic].partitions]
    found = run(list_offsets(client, dict.fromkeys(places, where)))
    return {place: found[place].offset for place in places}


def _check_least(*numbers: tuple[str, int]) -> None:
    for flag, number in numbers:
        if number < 1:
            raise UsageError(f"{flag} {number}: must be at least 1")


def _report(topic: str, figures: Figures, *, json: bool) -> None:
    if json:
        print_json({"topic": topic, **figures.as_json()})
        return
    if sys.stderr.isatty():
        figures.clear()
    print_line(figures.line())
    print_line(figures.latencies())
