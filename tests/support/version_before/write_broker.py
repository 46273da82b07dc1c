"""Write tests/golden/version-0.1/broker-*: a directory after a stop and after a kill -9.

Run it from this checkout with the Python of the version to be recorded:

    ../before/.venv/bin/python -m tests.support.version_before.write_broker
"""

import gzip
import json
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.version_before.compare import differences
from tests.support.version_before.fill_amqp import fill_amqp
from tests.support.version_before.fill_kafka import fill_kafka
from tests.support.version_before.observe_amqp import observe_amqp
from tests.support.version_before.observe_kafka import observe_kafka
from tests.support.version_before.stored_broker import StoredBroker

GOLDEN = Path(__file__).parents[2] / "golden" / "version-0.1"
ENDS = ("stopped", "killed")


def observe(broker: StoredBroker) -> dict[str, Any]:
    """Read everything that is in the broker's directory, as JSON."""
    return {"kafka": observe_kafka(broker), "amqp": observe_amqp(broker)}


def fill(broker: StoredBroker) -> list[Any]:
    """Write everything; return clients that must be kept until the broker has ended."""
    kept = [*fill_kafka(broker)]
    return [*kept, *fill_amqp(broker)]


def pack(directory: Path, archive: Path) -> None:
    """Pack a directory as `log`; the same files give the same bytes."""
    with tarfile.open(archive, "w:xz", format=tarfile.PAX_FORMAT) as packed:
        for path in sorted(directory.rglob("*")):
            if path.is_socket():
                continue
            packed.add(path, Path("log") / path.relative_to(directory), recursive=False)


def unpack(archive: Path, directory: Path) -> Path:
    """Unpack an archive below a directory; return the log directory. Times are those recorded."""
    with tarfile.open(archive) as packed:
        packed.extractall(directory, filter="data")
    return directory / "log"


def write_json(path: Path, value: Any) -> None:
    """Write JSON, compressed; the same value gives the same bytes."""
    text = json.dumps(value, indent=0, ensure_ascii=True).encode()
    path.write_bytes(gzip.compress(text, 9, mtime=0))


def read_json(path: Path) -> Any:
    """Read what `write_json` wrote."""
    return json.loads(gzip.decompress(path.read_bytes()))


def copies(place: Path, archive: Path) -> Iterator[StoredBroker]:
    """A broker on a copy of an archive's directory."""
    place.mkdir(parents=True)
    unpack(archive, place)
    with StoredBroker(place) as broker:
        yield broker


def main() -> None:
    """Fill, end, pack; open a copy and record what is there; hold a second copy against it."""
    GOLDEN.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        for end in ENDS:
            archive = GOLDEN / f"broker-{end}.tar.xz"
            with StoredBroker(place / end) as broker:
                kept = fill(broker)
                broker.stop() if end == "stopped" else broker.kill()
                pack(broker.log, archive)
                del kept
            found = [
                observe(copy)
                for turn in ("first", "second")
                for copy in copies(place / end / turn, archive)
            ]
            assert not (lines := [*differences(found[0], found[1])]), lines[:20]
            write_json(GOLDEN / f"broker-{end}.expected.json.gz", found[0])
            shutil.rmtree(place / end)
            print(f"{archive}: {archive.stat().st_size} bytes")


if __name__ == "__main__":
    main()
