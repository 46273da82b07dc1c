"""`log dump --format kafka` prints what Kafka's own DumpLogSegments printed of the same files.

The hashes were taken from Kafka 4.3.1 (`python -m tests.outside.kafka_reads_our_files.dumps DIR`).
"""

import functools
import json
from hashlib import sha256
from pathlib import Path

import pytest

from headrace.logtools.dump import KafkaDump, KafkaOptions
from headrace.logtools.dump.java_text import json_of, text_of
from headrace.wire.kafka.coordinator_records.offsets_tables import CONSUMER_OFFSETS
from headrace.wire.kafka.coordinator_records.state_tables import TRANSACTION_STATE
from tests.golden import test_log_golden

HASHES = json.loads((Path(__file__).parent / "dump-log-segments.json").read_text())
OPTIONS = {
    "": KafkaOptions(),
    "--print-data-log --verify-index-only": KafkaOptions(
        print_data_log=True, verify_index_only=True
    ),
    "--index-sanity-check --skip-record-metadata --print-data-log": KafkaOptions(
        print_data_log=True, skip_record_metadata=True, index_sanity_check=True
    ),
    "--max-bytes 3000 --deep-iteration": KafkaOptions(max_bytes=3000, deep_iteration=True),
    "--offsets-decoder": KafkaOptions(tables=CONSUMER_OFFSETS),
    "--transaction-log-decoder": KafkaOptions(tables=TRANSACTION_STATE),
}
disk_of = functools.cache(test_log_golden.disk_of)
"""Nothing here writes."""
CASES = [(archive, flags) for archive, found in HASHES.items() for flags in found]


@pytest.mark.parametrize(("archive", "flags"), CASES)
def test_every_file_is_printed_as_kafka_prints_it(archive: str, flags: str) -> None:
    wanted = HASHES[archive][flags]
    assert len(wanted) >= 5
    dump = KafkaDump(disk_of(archive), OPTIONS[flags])
    for name, digest in wanted.items():
        lines = dump.lines(f"/{archive}/{name}", name)
        text = "\n".join(lines).removeprefix("Dumping ")
        # The last file's newline ends Kafka's output, the others' were the next one's.
        found = {sha256(one.encode()).hexdigest()[:16] for one in (text, text + "\n")}
        assert digest in found, name


def test_gaps_that_compaction_left_are_remarked() -> None:
    dump = KafkaDump(disk_of("kafka-4.3.1-clean"), KafkaOptions(deep_iteration=True))
    segments = [name for name in HASHES["kafka-4.3.1-clean"][""] if name.startswith("g-compacted")]
    for name in segments:
        if name.endswith(".log"):
            list(dump.lines(f"/kafka-4.3.1-clean/{name}", name))
    remarks = list(dump.remarks())
    assert remarks[0].startswith("Non-consecutive offsets in /kafka-4.3.1-clean/g-compacted-0/")
    assert any(" is followed by " in line for line in remarks[1:])


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"plain \xe6\xb6\x88", "plain 消"),
        (b"\xff\xfe", "��"),
        (b"\xed\xa0\x80|\xed\xa0|\xed", "�|�|�"),
        (b"\xe2\x82", "�"),
        (b"\xf0\x9f\x98|", "�|"),
        (b"\xf5\x80\x80\x80", "����"),
    ],
)
def test_malformed_text_is_replaced_as_java_does(data: bytes, text: str) -> None:
    assert text_of(data) == text


def test_json_is_escaped_as_jackson_does() -> None:
    assert json_of({"a": 'x"\\\x00\x1f\n/é', "b": [b"\x01\x02", None, True, -1]}) == (
        '{"a":"x\\"\\\\\\u0000\\u001F\\n/é","b":["AQI=",null,true,-1]}'
    )
