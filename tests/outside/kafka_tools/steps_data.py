"""Kafka's tools that write, read, measure and delete records."""

import json
import re
import time

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.outside.kafka_tools import masks
from tests.outside.kafka_tools.step import CONSUMER, OFFSETS, PRODUCER, TOOLS, TOPICS, Side, Step


def console() -> list[Step]:
    """Lines in, lines out, in every compression and in groups."""
    keyed = "--reader-property parse.key=true --reader-property key.separator=:"
    shown = " ".join(f"--formatter-property print.{one}=true" for one in
                     ("key", "offset", "partition", "headers"))  # fmt: skip
    steps = [
        Step("topics create one", TOPICS, "--create --topic one --partitions 1"),
        Step("topics create two", TOPICS, "--create --topic two --partitions 1"),
    ]
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        text = "".join(f"k{at}:{codec} {at}\n" for at in range(20))
        steps.append(
            Step(f"console-producer {codec}", PRODUCER,
                 f"--topic one {keyed} --compression-codec={codec}", stdin=text)
        )  # fmt: skip
    steps += [
        Step("console-producer acks=1", PRODUCER, "--topic two --request-required-acks 1",
             stdin="a\nb\nc\n"),
        Step("console-consumer from the beginning", CONSUMER,
             f"--topic one --from-beginning --max-messages 100 --timeout-ms 20000 {shown}",
             expected=("zstd 19", "Processed a total of 100 messages")),
        Step("console-consumer from an offset", CONSUMER,
             "--topic one --partition 0 --offset 95 --max-messages 5 --timeout-ms 20000"),
        Step("console-consumer in a group", CONSUMER,
             "--topic one --from-beginning --max-messages 60 --timeout-ms 20000 --group g1"
             " --consumer-property enable.auto.commit=true"),
        Step("console-consumer until nothing comes", CONSUMER,
             "--topic two --from-beginning --timeout-ms 5000 --group g2",
             mask=(masks.in_any_order, masks.values_only("org.apache", "ERROR", "[main] ERROR")),
             expected=("Processed a total of 3 messages",)),
    ]  # fmt: skip
    return steps


_NOW = time.time_ns() // 1_000_000 - 60_000


def _timed(side: Side) -> None:
    """The newest of three records is the second."""
    _create(side, "timed")
    producer = Producer({"bootstrap.servers": side.broker.bootstrap})
    for late in (-3000, 1000, -1000):
        producer.produce("timed", b"value", partition=0, timestamp=_NOW + late)
    if producer.flush(30):
        raise AssertionError("not written")


def _create(side: Side, name: str, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": side.broker.bootstrap})
    settings = {key.replace("_", "."): value for key, value in config.items()}
    for done in admin.create_topics([NewTopic(name, 1, 1, config=settings)]).values():
        done.result(30)


def _far(side: Side) -> None:
    wanted = [
        {"topic": "one", "partition": 0, "offset": 5000},
        {"topic": "nope", "partition": 0, "offset": 1},
    ]
    (side.place / "far.json").write_text(json.dumps({"partitions": wanted, "version": 1}))


def offsets() -> list[Step]:
    """Offsets, deleted records, log directories and leaders."""

    def write(side: Side) -> None:
        wanted = [{"topic": "one", "partition": 0, "offset": 10}]
        text = json.dumps({"partitions": wanted, "version": 1})
        (side.place / "records.json").write_text(text)

    def offsets(name: str, words: str) -> Step:
        return Step(f"get-offsets {name}", OFFSETS, words, mask=(masks.in_any_order,))

    found = [offsets(name, f"--topic-partitions one,two --time {name}")
             for name in ("latest", "earliest", "earliest-local",
                          "latest-tiered", "0")]  # fmt: skip
    return [
        *found,
        Step("topic timed, with times", prepare=_timed),
        *(offsets(f"for a time, {name}", f"--topic timed --time {when}")
          for name, when in (("the newest", "max-timestamp"), ("within", _NOW - 2000),
                             ("after the end", _NOW + 2000))),
        Step("delete-records", f"{TOOLS}.DeleteRecordsCommand",
             "--offset-json-file {place}/records.json", prepare=write),
        Step("delete-records past the end", f"{TOOLS}.DeleteRecordsCommand",
             "--offset-json-file {place}/far.json", prepare=_far, mask=(masks.in_any_order,),
             # It asks again until its own 60 seconds are over.
             seconds_max=100),
        offsets("of all topics", "--time latest --exclude-internal-topics"),
        offsets("by an expression", "--topic (one|two) --partitions 0 --time earliest"),
        offsets("of what is not there", "--topic nope --time latest"),
        offsets("after deletion", "--topic-partitions one --time earliest"),
        Step("console-consumer after deletion", CONSUMER,
             "--topic one --from-beginning --max-messages 3 --timeout-ms 20000"),
        Step("log-dirs", f"{TOOLS}.LogDirsCommand", "--describe --topic-list one,two",
             mask=(masks.sizes,), expected=("one-0",)),
        Step("log-dirs of a broker", f"{TOOLS}.LogDirsCommand",
             "--describe --broker-list 1 --topic-list two", mask=(masks.sizes,),
             expected=("two-0",)),
        Step("log-dirs of a broker that is not there", f"{TOOLS}.LogDirsCommand",
             "--describe --broker-list 7"),
        Step("leader-election of all", f"{TOOLS}.LeaderElectionCommand",
             "--election-type preferred --all-topic-partitions"),
        Step("leader-election of one", f"{TOOLS}.LeaderElectionCommand",
             "--election-type preferred --topic one --partition 0"),
        Step("leader-election, unclean", f"{TOOLS}.LeaderElectionCommand",
             "--election-type unclean --topic nope --partition 0"),
    ]  # fmt: skip


def measuring() -> list[Step]:
    """Kafka's measurements and its verifiable clients."""
    return [
        Step("topics create perf", TOPICS, "--create --topic perf --partitions 1"),
        Step("producer-perf", f"{TOOLS}.ProducerPerformance",
             "--topic perf --num-records 5000 --record-size 100 --throughput -1",
             mask=(masks.measured,), expected=("5000 records sent",)),
        Step("consumer-perf", f"{TOOLS}.ConsumerPerformance",
             "--topic perf --num-records 5000 --timeout 20000", mask=(masks.consumed,),
             expected=("5000",)),
        Step("topics create verified", TOPICS, "--create --topic verified --partitions 1"),
        Step("verifiable-producer", f"{TOOLS}.VerifiableProducer",
             "--topic verified --max-messages 50", mask=(masks.events,),
             expected=("producer_send_success 50",)),
        Step("verifiable-consumer", f"{TOOLS}.VerifiableConsumer",
             "--topic verified --max-messages 50 --group-id v1 --reset-policy earliest",
             mask=(masks.events,), expected=("records_consumed 50",)),
        Step("end-to-end latency", f"{TOOLS}.EndToEndLatency",
             "--topic verified --num-records 20 --producer-acks 1 --record-size 30",
             mask=(lambda found: [masks.rates([line])[0] for line in found if "Avg" in line],),
             expected=("Avg",)),
        Step("console-producer: too large", PRODUCER,
             "--topic tight --producer-property compression.type=none", stdin="x" * 2000 + "\n",
             prepare=_tight, expected=("RecordTooLargeException",)),
        Step("console-producer: no such topic", PRODUCER,
             "--topic nope --command-property max.block.ms=3000", stdin="x\n",
             mask=(_kinds,)),
        Step("console-consumer: no such topic", CONSUMER,
             "--topic nope --from-beginning --timeout-ms 5000", mask=(_kinds,)),
    ]  # fmt: skip


def _kinds(found: list[str]) -> list[str]:
    """What comes again while the tool waits, once, whichever of its threads says it."""
    by_nature = re.compile(r"^\[[^\]]+\] (?=WARN )|(?<=correlation id )\d+")
    return list(dict.fromkeys(by_nature.sub("", line) for line in found))


def _tight(side: Side) -> None:
    _create(side, "tight", max_message_bytes="1000")
