"""DumpLogSegments and `headrace log dump --format kafka` over the same files, byte for byte.

Run with directories: prints hashes of what Kafka's tool says of each file, for the tests that have
no JVM (tests/golden/dump-log-segments.json).
"""

import json
import sys
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path

from tests.outside.kafka_reads_our_files.jvm import Dumped, kafka_dump, run_dump

HEADRACE_DUMP = [sys.executable, "-m", "headrace.cli.main", "log", "dump", "--format", "kafka"]
KNOWN = {".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint"}
INTERNAL = {
    "__consumer_offsets": "--offsets-decoder",
    "__transaction_state": "--transaction-log-decoder",
    "__share_group_state": "--share-group-state-decoder",
}


def dumpable(directory: Path) -> list[str]:
    """Every file DumpLogSegments opens, relative to the log directory."""
    found = (path for path in directory.rglob("*") if path.is_file() and path.suffix in KNOWN)
    return sorted(str(path.relative_to(directory)) for path in found)


def passes(directory: Path, *, full: bool) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Flags and the files they are for: all files in several ways, coordinators' logs decoded."""
    files = dumpable(directory)
    if full:
        yield (), files
        yield ("--print-data-log", "--verify-index-only"), files
        yield ("--index-sanity-check", "--skip-record-metadata", "--print-data-log"), files
        yield ("--max-bytes", "3000", "--deep-iteration"), files
    else:
        yield ("--print-data-log",), files
    for topic, flag in INTERNAL.items():
        logs = [name for name in files if name.startswith(topic) and name.endswith(".log")]
        if logs:
            yield (flag,), logs


def headrace_dump(files: list[str], flags: Iterable[str], cwd: Path) -> Dumped:
    """Ours."""
    return run_dump(HEADRACE_DUMP, files, list(flags), cwd)


def compare(directory: Path, *, full: bool) -> tuple[int, int, list[str]]:
    """Files and lines compared in all passes, and what differs."""
    lines, wrong = 0, []
    files: set[str] = set()
    for flags, chosen in passes(directory, full=full):
        kafka = kafka_dump(chosen, flags, directory)
        ours = headrace_dump(chosen, flags, directory)
        files.update(chosen)
        lines += kafka.out.count(b"\n")
        said = [line for line in ours.remarks if not line.startswith(b"headrace: ")]
        # Kafka's tool ends with the first damaged file, ours goes on to the next.
        if kafka.out != (ours.out[: len(kafka.out)] if kafka.status else ours.out):
            wrong.append(f"{directory} {' '.join(flags)}: {_first(kafka.out, ours.out)}")
        elif kafka.remarks != said and not kafka.status:
            wrong.append(
                f"{directory} {' '.join(flags)}: remarks {kafka.remarks[:3]}, ours {said[:3]}"
            )
        elif kafka.status != ours.status:
            wrong.append(f"{directory} {' '.join(flags)}: {kafka.status}, ours {ours.status}")
    return len(files), lines, wrong


def _first(kafka: bytes, ours: bytes) -> str:
    theirs, mine = kafka.split(b"\n"), ours.split(b"\n")
    for number, (one, two) in enumerate(zip(theirs, mine, strict=False), 1):
        if one != two:
            return f"line {number}: Kafka {one[:300]!r}, ours {two[:300]!r}"
    return f"{len(theirs)} lines, ours {len(mine)}"


def hashes(directory: Path) -> dict[str, dict[str, str]]:
    """Flags -> file -> hash of what Kafka's tool prints of it: for tests that have no JVM."""
    found: dict[str, dict[str, str]] = {}
    for flags, chosen in passes(directory, full=True):
        texts = (b"\n" + kafka_dump(chosen, flags, directory).out).split(b"\nDumping ")[1:]
        found[" ".join(flags)] = {
            text.partition(b"\n")[0].decode(): sha256(text).hexdigest()[:16] for text in texts
        }
    return found


if __name__ == "__main__":
    print(json.dumps({Path(one).name: hashes(Path(one)) for one in sys.argv[1:]}, indent=0))
