"""The small text files of a log directory and of a partition: written and read.

Every writer returns bytes and every reader takes them: dump, recovery and tests share them. Offset
checkpoints: line 1 version `0`, line 2 count, then `topic partition offset` (CheckpointFile).
"""

import base64
import json
from collections.abc import Iterable, Mapping
from itertools import pairwise

from headrace.log import file_names
from headrace.model.errors import CorruptLogError
from headrace.model.nouns import LeaderEpoch, Offset, TopicPartition
from headrace.ports.disk import Disk

NO_TOPIC_ID = bytes(16)


def read_file(disk: Disk, path: str) -> bytes | None:
    """Return the whole content of a small file; None where there is none."""
    try:
        file = disk.open(path, writable=False)
    except FileNotFoundError:
        return None
    try:
        return file.read(0, file.size())
    finally:
        file.close()


def write_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """Return the bytes of an `…-offset-checkpoint`, sorted so that equal content is equal bytes."""
    lines = [f"{at.topic} {at.partition} {offset}\n" for at, offset in sorted(offsets.items())]
    return f"0\n{len(lines)}\n{''.join(lines)}".encode()


def read_offsets(content: bytes, path: str) -> dict[TopicPartition, Offset]:
    """Read an `…-offset-checkpoint`; CorruptLogError where it is none.

    Kafka makes the cleaner's as an empty file, and fills it after its first compaction.
    """
    found: dict[TopicPartition, Offset] = {}
    if not content and path.endswith(f"/{file_names.CLEANER_OFFSETS}"):
        return found
    for fields in _checkpoint_lines(content, path, fields=3):
        topic, partition, offset = fields
        found[TopicPartition(topic, _int(partition, path))] = Offset(_int(offset, path))
    return found


def write_epochs(epochs: Iterable[tuple[int, int]]) -> bytes:
    """Return the bytes of a `leader-epoch-checkpoint`: (epoch, start offset) in order."""
    lines = [f"{epoch} {start}\n" for epoch, start in epochs]
    return f"0\n{len(lines)}\n{''.join(lines)}".encode()


def read_epochs(content: bytes, path: str) -> list[tuple[LeaderEpoch, Offset]]:
    """Read a `leader-epoch-checkpoint`; CorruptLogError where it is none."""
    found = [
        (LeaderEpoch(_int(epoch, path)), Offset(_int(start, path)))
        for epoch, start in _checkpoint_lines(content, path, fields=2)
    ]
    if not all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(found)):
        raise CorruptLogError(f"{path}: its epochs do not grow")
    return found


def _checkpoint_lines(content: bytes, path: str, fields: int) -> list[list[str]]:
    lines = content.decode("utf-8", "replace").split("\n")
    if lines[0].strip() != "0" or len(lines) < 2:
        raise CorruptLogError(f"{path}: not a checkpoint of version 0")
    if lines[-1]:
        # What a power cut leaves of a number is a number.
        raise CorruptLogError(f"{path}: ends inside the line {lines[-1]!r}")
    rows = [line.split() for line in lines[2:] if line.strip()]
    if len(rows) != _int(lines[1], path) or any(len(row) != fields for row in rows):
        raise CorruptLogError(f"{path}: the lines are not the {lines[1].strip()} announced")
    return rows


def _int(text: str, path: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise CorruptLogError(f"{path}: {text!r} is no number") from None


def write_partition_metadata(topic_id: bytes) -> bytes:
    """Return the bytes of a `partition.metadata`: no newline at its end, as Kafka writes it."""
    return f"version: 0\ntopic_id: {encode_uuid(topic_id)}".encode()


def read_partition_metadata(content: bytes, path: str) -> bytes:
    """Return the topic id, 16 bytes; CorruptLogError where the file holds none."""
    for line in content.decode("utf-8", "replace").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "topic_id":
            try:
                return decode_uuid(value.strip())
            except ValueError:
                break
    raise CorruptLogError(f"{path}: no topic id in it")


def encode_uuid(unique: bytes) -> str:
    """Return Kafka's text of 16 bytes: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(unique).rstrip(b"=").decode()


def decode_uuid(text: str) -> bytes:
    """Return the 16 bytes of Kafka's text; ValueError."""
    raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    if len(raw) != 16:
        raise ValueError(f"{text!r} is no uuid")
    return raw


DOUBTED = "none, for a flush has failed"
"""In place of a boot id: the page cache is not to be believed."""


def write_boot_id(boot_id: str) -> bytes:
    """Return the bytes of a `headrace-boot-id`."""
    return f"version: 0\nboot_id: {boot_id}\n".encode()


def read_boot_id(content: bytes) -> str:
    """Return the boot in whose time the directory was last used; "" where that cannot be told."""
    lines = content.decode("utf-8", "replace").split("\n")
    if len(lines) != 3 or lines[0] != "version: 0" or not lines[1].startswith("boot_id: "):
        return ""
    return lines[1].removeprefix("boot_id: ")


def read_properties(content: bytes) -> dict[str, str]:
    """Parse Java properties as `meta.properties` uses them: `name=value`, `#` and `!` comments."""
    found: dict[str, str] = {}
    for line in content.decode("utf-8", "replace").splitlines():
        stripped = line.strip()
        if not stripped or stripped[0] in "#!":
            continue
        name, _, value = stripped.partition("=")
        found[name.strip()] = value.strip()
    return found


def write_meta_properties(broker_id: int, cluster_id: str) -> bytes:
    """Return a new `meta.properties`, version 0 as a broker with ZooKeeper writes it."""
    return f"#\nbroker.id={broker_id}\nversion=0\ncluster.id={cluster_id}\n".encode()


def with_cluster_id(content: bytes, cluster_id: str) -> bytes:
    """Return the bytes of a `meta.properties` with another cluster id, other lines as they are."""
    lines = content.decode("utf-8", "replace").splitlines()
    kept = [line for line in lines if line.partition("=")[0].strip() != "cluster.id"]
    return "\n".join([*kept, f"cluster.id={cluster_id}", ""]).encode()


def write_clean_shutdown(broker_epoch: int = -1) -> bytes:
    """Return the bytes of a `.kafka_cleanshutdown`."""
    return f'{{"version":0,"brokerEpoch":{broker_epoch}}}'.encode()


def read_clean_shutdown(content: bytes, path: str) -> dict[str, object]:
    """Return what `.kafka_cleanshutdown` says; an empty one (before Kafka 3.7) says nothing."""
    if not content.strip():
        return {}
    try:
        found = json.loads(content)
    except ValueError:
        raise CorruptLogError(f"{path}: not JSON") from None
    if not isinstance(found, dict):
        raise CorruptLogError(f"{path}: not a JSON object")
    return found
