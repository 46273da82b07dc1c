"""A RocketMQ broker's store, written file by file as the broker lays it out."""

import json
import struct
import time
from collections.abc import Mapping
from pathlib import Path

from headrace.wire.rocketmq.properties import encode_properties
from headrace.wire.rocketmq.store.queue_files import ENTRY, FILLER_MAGIC
from headrace.wire.rocketmq.stored_messages import PulledMessage, encode_message

HOST = bytes((127, 0, 0, 1, 0, 0, 42, 159))
NOW_MS = int(time.time() - 3600) * 1000
"""An hour ago: no message has expired."""
LOG_FILE_BYTES = 64 * 1024
QUEUE_FILE_ENTRIES = 50
_FILLER = struct.Struct(">iI")


class StoreFiles:
    """The files of a store. Put messages, then call `write`."""

    def __init__(self, root: Path, log_start: int = 0) -> None:
        self.root = root
        self.log_start = log_start
        self.log = bytearray()
        self.queues: dict[tuple[str, int], list[bytes]] = {}
        self.firsts: dict[tuple[str, int], int] = {}

    @property
    def position(self) -> int:
        """The position of the next message."""
        return self.log_start + len(self.log)

    def begin(self, topic: str, queue: int, offset: int) -> None:
        """Have a queue's next message at an offset; those before it are deleted."""
        place = (topic, queue)
        self.firsts[place] = offset - offset % QUEUE_FILE_ENTRIES
        filled = offset % QUEUE_FILE_ENTRIES
        self.queues[place] = [ENTRY.pack(0, 0x7FFFFFFF, 0)] * filled

    def next_offset(self, topic: str, queue: int) -> int:
        """Return the offset of a queue's next message."""
        place = (topic, queue)
        return self.firsts.get(place, 0) + len(self.queues.get(place, []))

    def put(
        self,
        topic: str,
        queue: int,
        body: bytes,
        properties: Mapping[str, str] | None = None,
        *,
        stored_ms: int = NOW_MS,
        tags_code: int = 0,
        system_flag: int = 0,
        prepared: int = 0,
        times: int = 0,
    ) -> int:
        """Store a message; return its position in the commit log."""
        offset = self.next_offset(topic, queue)
        added = {"MSG_REGION": "DefaultRegion", "CLUSTER": "DefaultCluster", "TRACE_ON": "true"}
        message = PulledMessage(
            topic.encode(), queue, offset, 0, body,
            encode_properties({**(properties or {}), **added}), stored_ms - 5, HOST, stored_ms,
            HOST, 0, system_flag, times, prepared,
        )  # fmt: skip
        size = len(encode_message(message))
        room = LOG_FILE_BYTES - len(self.log) % LOG_FILE_BYTES
        if size + _FILLER.size > room:
            self.log += _FILLER.pack(room, FILLER_MAGIC).ljust(room, b"\0")
        position = self.position
        self.log += encode_message(message._replace(physical_offset=position))
        entry = ENTRY.pack(position, size, tags_code)
        self.queues.setdefault((topic, queue), []).append(entry)
        return position

    def write(self, **configs: object) -> None:
        """Write all files; `configs`: content of files in `config`, by the name's beginning."""
        commitlog = self.root / "commitlog"
        commitlog.mkdir(parents=True, exist_ok=True)
        padded = bytes(self.log).ljust(-(-len(self.log) // LOG_FILE_BYTES) * LOG_FILE_BYTES, b"\0")
        for at in range(0, max(len(padded), 1), LOG_FILE_BYTES):
            data = padded[at : at + LOG_FILE_BYTES].ljust(LOG_FILE_BYTES, b"\0")
            (commitlog / f"{self.log_start + at:020}").write_bytes(data)
        (self.root / "consumequeue").mkdir(exist_ok=True)
        for (topic, queue), entries in self.queues.items():
            folder = self.root / "consumequeue" / topic / str(queue)
            folder.mkdir(parents=True, exist_ok=True)
            first = self.firsts.get((topic, queue), 0)
            for at in range(0, max(len(entries), 1), QUEUE_FILE_ENTRIES):
                data = b"".join(entries[at : at + QUEUE_FILE_ENTRIES])
                name = f"{(first + at) * ENTRY.size:020}"
                (folder / name).write_bytes(data.ljust(QUEUE_FILE_ENTRIES * ENTRY.size, b"\0"))
        (self.root / "config").mkdir(exist_ok=True)
        (self.root / "lock").write_text("lock")
        for name, value in configs.items():
            content = value if isinstance(value, bytes) else json.dumps(value).encode()
            suffix = "" if isinstance(value, bytes) else ".json"
            (self.root / "config" / f"{name}{suffix}").write_bytes(content)


def topic_row(name: str, read: int = 4, write: int = 4, perm: int = 6) -> dict[str, object]:
    """Return a topic's settings as topics.json has them."""
    return {
        "attributes": {}, "order": False, "perm": perm, "readQueueNums": read,
        "topicFilterType": "SINGLE_TAG", "topicName": name, "topicSysFlag": 0,
        "writeQueueNums": write,
    }  # fmt: skip


def topics(*rows: dict[str, object]) -> dict[str, object]:
    """Return a topics.json."""
    return {"topicConfigTable": {str(row["topicName"]): row for row in rows}}


def timer_checkpoint(read_ms: int, queue_offset: int) -> bytes:
    """Return the checkpoint of the timer: what is delivered, and how far its topic is read."""
    return struct.pack(">qqqqqqq", read_ms, 0, queue_offset, 0, 0, 0, 0)
