"""The options of produced records, and the sender that splits input into lines and sends them."""

import os
import time
from dataclasses import dataclass
from typing import Annotated, BinaryIO, Literal, Protocol

from cyclopts import Parameter

from headrace.client.client import Client
from headrace.client.producer.producer import Producer
from headrace.client.producer.value_batches import encode_values
from headrace.record.compression import Codec
from headrace.terminal.failure import UsageError
from headrace.terminal.input_lines import LineParser, parse_headers
from headrace.terminal.record_formats import unescape

CHUNK_BYTES = 1 << 20
"""Bytes read from the input at once."""

Acks = Literal["all", "-1", "1", "0"]
Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]


@Parameter(name="*")
@dataclass(frozen=True)
class Records:
    """Options that say how a line becomes a record."""

    key: Annotated[str | None, Parameter(name=["-k", "--key"], help="Key of all records.")] = None
    separator: Annotated[
        str | None,
        Parameter(
            name=["--key-separator", "-K"],
            help="Separator between key and value in a line, \\t for a tab; without it a line is a"
            " value.",
        ),
    ] = None
    headers: Annotated[
        tuple[str, ...],
        Parameter(name=["-H", "--header"], help="A header as name=value; may be given again."),
    ] = ()
    null: Annotated[
        str | None,
        Parameter(name="--null-marker", help="A key or value equal to this text is sent as null."),
    ] = None
    tombstone: Annotated[
        bool,
        Parameter(help="Send one null value for --key."),
    ] = False
    format: Annotated[
        Literal["lines", "json"],
        Parameter(
            name=["-f", "--format"],
            help="json: as printed by headrace consume --json; partition and timestamp are kept.",
        ),
    ] = "lines"
    partition: Annotated[
        int | None,
        Parameter(name=["-p", "--partition"], help="Partition, in place of choosing it by key."),
    ] = None
    compression: Annotated[
        Compression,
        Parameter(
            name=["-z", "--compression", "--compression-codec"], help="Compression of batches."
        ),
    ] = "none"
    acks: Annotated[
        Acks,
        Parameter(
            name=["--acks", "--request-required-acks"],
            help="Acknowledgements: all (in-sync replicas), 1 (leader) or 0 (none).",
        ),
    ] = "all"

    def parser(self) -> LineParser:
        """Return the parser of lines. Raises UsageError."""
        if self.key is not None and self.separator is not None:
            raise UsageError("--key and --key-separator cannot be combined")
        if self.separator == "":
            raise UsageError("--key-separator: must not be empty")
        if self.tombstone and self.key is None:
            raise UsageError("--tombstone: needs --key")
        return LineParser(
            None if self.key is None else self.key.encode(),
            None if self.separator is None else unescape(self.separator).encode(),
            None if self.null is None else self.null.encode(),
            parse_headers(self.headers),
            json=self.format == "json",
        )

    def producer(self, client: Client) -> Producer:
        """Return a producer with the chosen acks and compression."""
        return Producer(
            client,
            acks=-1 if self.acks in {"all", "-1"} else int(self.acks),
            compression=Codec[self.compression.upper()],
        )


class Progress(Protocol):
    """Called with the number of bytes read."""

    def __call__(self, size: int, /) -> None: ...


class Sender:
    """Splits input into lines and sends each as a record."""

    def __init__(
        self, producer: Producer, topic: str, parser: LineParser, partition: int | None
    ) -> None:
        self.producer = producer
        self.topic = topic
        self.parser = parser
        self.partition = partition
        self.number = 0
        """Lines sent so far."""

    async def read(self, file: BinaryIO, progress: Progress) -> None:
        """Send all lines of `file`; the last one need not have a line end."""
        rest = b""
        descriptor = file.fileno()
        while chunk := os.read(descriptor, CHUNK_BYTES):
            *lines, rest = (rest + chunk).split(b"\n")
            await self.send(lines)
            # Typed or slow input is sent at once, without waiting for more.
            await self.producer.dispatch()
            progress(len(chunk))
        if rest:
            await self.send([rest])

    async def send(self, lines: list[bytes]) -> None:
        """Send lines given without their line ends."""
        if self.parser.takes_whole_lines:
            await self._send_whole(lines)
            return
        send, parse, now = self.producer.send, self.parser.parse, now_ms()
        for line in lines:
            self.number += 1
            value, key, headers, timestamp, partition = parse(line.removesuffix(b"\r"), self.number)
            await send(
                self.topic,
                value,
                key,
                timestamp=now if timestamp is None else timestamp,
                headers=headers,
                partition=partition if self.partition is None else self.partition,
            )

    async def _send_whole(self, lines: list[bytes]) -> None:
        """Send lines that are values as they are: the fast path for millions of lines."""
        producer, key, headers = self.producer, self.parser.key, self.parser.headers
        values = [line[:-1] if line.endswith(b"\r") else line for line in lines]
        self.number += len(lines)
        await producer.partitions(self.topic)
        for encoded, size in encode_values(
            values, key, headers, now_ms(), batch_bytes=producer.batch_bytes,
            codec=producer.compression,
        ):  # fmt: skip
            where = producer.place(self.topic, key, self.partition)
            await producer.send_encoded(where, encoded, size, keyed=key is not None)


def now_ms() -> int:
    """Return the current time in milliseconds, for records without a timestamp."""
    return time.time_ns() // 1_000_000
