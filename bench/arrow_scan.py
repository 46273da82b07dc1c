"""Records per second that `headrace.arrow.open` makes of segments on disk, one core, no broker.

Keys, values and records as in the Spark row: 100-byte JSON, 16 KB batches. All columns are made.

    python -m bench.arrow_scan [--records 5000000] [--codec lz4] [--threads 1] [--rounds 5]
    python -m bench.arrow_scan --directory LOG_DIR --topic TOPIC
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from statistics import median

import headrace.arrow
from bench.spark_scan import sample_batches
from headrace.log.segment.indexes import OFFSET_ENTRY
from headrace.log.text_files import encode_uuid
from headrace.record.batch import Codec, stamp

PARTITIONS = 2
SEGMENT_BYTES = 1 << 30


def write(directory: Path, topic: str, records: int, codec: Codec) -> int:
    """A log directory as after a clean stop; returns how many records it holds."""
    batches, per_batch = sample_batches(codec)
    (directory / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')
    written = 0
    for partition in range(PARTITIONS):
        place = directory / f"{topic}-{partition}"
        place.mkdir()
        unique = encode_uuid(bytes([partition + 1]) * 16)
        (place / "partition.metadata").write_text(f"version: 0\ntopic_id: {unique}")
        offset = 0
        name = f"{offset:020d}"
        with (
            (place / f"{name}.log").open("wb") as file,
            (place / f"{name}.index").open("wb") as index,
        ):
            while offset < records // PARTITIONS:
                batch = bytearray(batches[offset // per_batch % len(batches)])
                stamp(batch, offset, 0)
                if offset:
                    index.write(OFFSET_ENTRY.pack(offset + per_batch - 1, file.tell()))
                file.write(batch)
                offset += per_batch
        written += offset
    return written


def scan(directory: Path, topic: str, threads: int) -> tuple[int, float, float]:
    """Rows, seconds and CPU seconds of reading everything once."""
    began, cpu = time.perf_counter(), time.process_time()
    rows = sum(batch.num_rows for batch in headrace.arrow.open(directory, topic, threads=threads))
    return rows, time.perf_counter() - began, time.process_time() - cpu


def measure(directory: Path, topic: str, threads: int, rounds: int) -> dict[str, object]:
    """Medians over the rounds; the first, in which code is loaded, is not counted."""
    rows, *_ = scan(directory, topic, threads)
    seconds, cpu = [], []
    for _ in range(rounds):
        _, elapsed, burnt = scan(directory, topic, threads)
        seconds.append(elapsed)
        cpu.append(burnt)
    return {
        "rows": rows,
        "rows/s": round(rows / median(seconds)),
        "rows per CPU second": round(rows / median(cpu)),
        "rows per CPU second, best scan": round(rows / min(cpu)),
        "seconds": [round(one, 3) for one in seconds],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--codec", default="lz4", choices=[one.name.lower() for one in Codec])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--directory", type=Path, help="read this log directory, write none")
    parser.add_argument("--topic", default="scan")
    given = parser.parse_args()
    if given.directory is not None:
        print(json.dumps(measure(given.directory, given.topic, given.threads, given.rounds)))
        return
    with tempfile.TemporaryDirectory(prefix="bench-arrow-") as name:
        write(Path(name), given.topic, given.records, Codec[given.codec.upper()])
        print(json.dumps(measure(Path(name), given.topic, given.threads, given.rounds)))


if __name__ == "__main__":
    main()
