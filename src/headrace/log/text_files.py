"""Formats of the small text files of a log directory and of a partition: encode and decode.

    *-offset-checkpoint                 leader-epoch-checkpoint         partition.metadata
    0                   (version)       0               (version)       version: 0
    1              (line count)         1          (line count)         topic_id: <base64 uuid>
    orders 0 42    (topic partition     7 42    (epoch, its first
                    offset)                      offset)                headrace-boot-id
                                                                        version: 0
    .kafka_cleanshutdown                meta.properties                 boot_id: <uuid>
    {"version":0,"brokerEpoch":7}       broker.id=1, version=0, cluster.id=<base64 uuid>

Encoders return bytes and decoders take bytes; the dump tool, recovery and tests share them.
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
    """Return the content of a small file, or None if the file does not exist."""
    try:
        file = disk.open(path, writable=False)
    except FileNotFoundError:
        return None
    try:
        return file.read(0, file.size())
    finally:
        file.close()


def write_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """Encode an `…-offset-checkpoint`, sorted so that equal offsets give equal bytes."""
    lines = [f"{at.topic} {at.partition} {offset}\n" for at, offset in sorted(offsets.items())]
    return f"0\n{len(lines)}\n{''.join(lines)}".encode()


def read_offsets(content: bytes, path: str) -> dict[TopicPartition, Offset]:
    """Decode an `…-offset-checkpoint`; CorruptLogError if it is invalid.

    An empty `cleaner-offset-checkpoint` is valid: Kafka fills it after its first compaction.
    """
    found: dict[TopicPartition, Offset] = {}
    if not content and path.endswith(f"/{file_names.CLEANER_OFFSETS}"):
        return found
    for fields in _checkpoint_lines(content, path, fields=3):
        topic, partition, offset = fields
        found[TopicPartition(topic, _int(partition, path))] = Offset(_int(offset, path))
    return found


def write_epochs(epochs: Iterable[tuple[int, int]]) -> bytes:
    """Encode a `leader-epoch-checkpoint` from (epoch, start offset) pairs in order."""
    lines = [f"{epoch} {start}\n" for epoch, start in epochs]
    return f"0\n{len(lines)}\n{''.join(lines)}".encode()


def read_epochs(content: bytes, path: str) -> list[tuple[LeaderEpoch, Offset]]:
    """Decode a `leader-epoch-checkpoint`; CorruptLogError if it is invalid."""
    found = [
        (LeaderEpoch(_int(epoch, path)), Offset(_int(start, path)))
        for epoch, start in _checkpoint_lines(content, path, fields=2)
    ]
    if not all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(found)):
        raise CorruptLogError(f"{path}: epochs or start offsets are not ascending")
    return found


def _checkpoint_lines(content: bytes, path: str, fields: int) -> list[list[str]]:
    lines = content.decode("utf-8", "replace").split("\n")
    if lines[0].strip() != "0" or len(lines) < 2:
        raise CorruptLogError(f"{path}: not a checkpoint of version 0")
    if lines[-1]:
        # A power cut may leave a prefix of a number, which is a valid number.
        raise CorruptLogError(f"{path}: ends inside the line {lines[-1]!r}")
    rows = [line.split() for line in lines[2:] if line.strip()]
    if len(rows) != _int(lines[1], path) or any(len(row) != fields for row in rows):
        raise CorruptLogError(f"{path}: not {lines[1].strip()} lines of {fields} fields")
    return rows


def _int(text: str, path: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise CorruptLogError(f"{path}: {text!r} is not a number") from None


def write_partition_metadata(topic_id: bytes) -> bytes:
    """Encode a `partition.metadata`; no newline at its end, as Kafka writes it."""
    return f"version: 0\ntopic_id: {encode_uuid(topic_id)}".encode()


def read_partition_metadata(content: bytes, path: str) -> bytes:
    """Return the 16-byte topic id of a `partition.metadata`; CorruptLogError if it has none."""
    for line in content.decode("utf-8", "replace").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "topic_id":
            try:
                return decode_uuid(value.strip())
            except ValueError:
                break
    raise CorruptLogError(f"{path}: no topic_id line with a valid uuid")


def encode_uuid(unique: bytes) -> str:
    """Encode 16 bytes as Kafka's uuid text: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(unique).rstrip(b"=").decode()


def decode_uuid(text: str) -> bytes:
    """Decode Kafka's uuid text to 16 bytes; ValueError if it is invalid."""
    raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    if len(raw) != 16:
        raise ValueError(f"{text!r} is not a uuid")
    return raw


DOUBTED = "none, for a flush has failed"
"""Stored in place of a boot id after a failed flush: the page cache cannot be trusted."""


def write_boot_id(boot_id: str) -> bytes:
    """Encode a `headrace-boot-id`."""
    return f"version: 0\nboot_id: {boot_id}\n".encode()


def read_boot_id(content: bytes) -> str:
    """Return the boot id under which the directory was last used; "" if unknown."""
    lines = content.decode("utf-8", "replace").split("\n")
    if len(lines) != 3 or lines[0] != "version: 0" or not lines[1].startswith("boot_id: "):
        return ""
    return lines[1].removeprefix("boot_id: ")


def read_properties(content: bytes) -> dict[str, str]:
    """Parse Java properties as in `meta.properties`: `name=value` lines, `#` and `!` comments."""
    found: dict[str, str] = {}
    for line in content.decode("utf-8", "replace").splitlines():
        stripped = line.strip()
        if not stripped or stripped[0] in "#!":
            continue
        name, _, value = stripped.partition("=")
        found[name.strip()] = value.strip()
    return found


def write_meta_properties(broker_id: int, cluster_id: str) -> bytes:
    """Encode a new `meta.properties`, version 0, as a broker with ZooKeeper writes it."""
    return f"#\nbroker.id={broker_id}\nversion=0\ncluster.id={cluster_id}\n".encode()


def with_cluster_id(content: bytes, cluster_id: str) -> bytes:
    """Replace the cluster id in the bytes of a `meta.properties`; other lines are unchanged."""
    lines = content.decode("utf-8", "replace").splitlines()
    kept = [line for line in lines if line.partition("=")[0].strip() != "cluster.id"]
    return "\n".join([*kept, f"cluster.id={cluster_id}", ""]).encode()


def write_clean_shutdown(broker_epoch: int = -1) -> bytes:
    """Encode a `.kafka_cleanshutdown`."""
    return f'{{"version":0,"brokerEpoch":{broker_epoch}}}'.encode()


def read_clean_shutdown(content: bytes, path: str) -> dict[str, object]:
    """Decode a `.kafka_cleanshutdown`; {} for an empty file, as Kafka before 3.7 wrote it."""
    if not content.strip():
        return {}
    try:
        found = json.loads(content)
    except ValueError:
        raise CorruptLogError(f"{path}: not JSON") from None
    if not isinstance(found, dict):
        raise CorruptLogError(f"{path}: not a JSON object")
    return found
