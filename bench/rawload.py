"""Load from raw sockets: prebuilt frames out, answers counted by their size, hardly any CPU spent.

What a client library costs is left out, so that the broker is what is measured. All connections run
in one thread around one selector; each keeps a fixed number of requests in flight. That everything
was really written is checked afterwards, against the partitions' end offsets.

`python -m bench.rawload requests|batches|fetch BOOTSTRAP TOPIC` prints one JSON object.
"""

import argparse
import json
import selectors
import socket
import struct
import time
from dataclasses import dataclass

from headrace.record import batch
from headrace.record.batch_layout import HEADER_BYTES
from headrace.record.record import new_record

PRODUCE, FETCH = 0, 1
PRODUCE_VERSION, FETCH_VERSION = 10, 11
TIMEOUT_MS = 30_000
SILENCE_SECONDS_MAX = 30.0
SETTLE_SECONDS_MAX = 60.0
NO_LEADER_YET = {3, 5, 6}
"""Error codes of a partition that has just been made."""
RECEIVE_BYTES = 1 << 20
FETCH_BYTES = 16 << 20
FETCH_BUFFER_BYTES = FETCH_BYTES + RECEIVE_BYTES
LENGTH = struct.Struct(">i")
BATCH_LENGTH_AT = 8
BATCH_OVERHEAD_BYTES = 12


@dataclass(frozen=True)
class Load:
    """What went through in the measured time."""

    requests: int
    megabytes: float
    seconds: float

    def __add__(self, other: "Load") -> "Load":
        return Load(
            self.requests + other.requests,
            self.megabytes + other.megabytes,
            self.seconds + other.seconds,
        )

    @property
    def requests_per_second(self) -> float:
        return self.requests / self.seconds

    @property
    def megabytes_per_second(self) -> float:
        return self.megabytes / self.seconds


NOTHING = Load(0, 0.0, 0.0)


def connect(bootstrap: str) -> socket.socket:
    """A blocking connection without Nagle's delay."""
    host, port = bootstrap.rsplit(":", 1)
    link = socket.create_connection((host, int(port)), SILENCE_SECONDS_MAX)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return link


def string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def frame(key: int, version: int, body: bytes) -> bytes:
    """A whole request with header v1, length first."""
    head = struct.pack(">hhi", key, version, 1) + string("bench")
    return LENGTH.pack(len(head) + len(body)) + head + body


def uvarint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def compact(content: bytes) -> bytes:
    return uvarint(len(content) + 1) + content


def produce_frame(topic: str, partition: int, records: bytes, acks: int) -> bytes:
    """A Produce v10 request of one batch, in librdkafka's shape."""
    one, end = uvarint(2), uvarint(0)
    place = one + LENGTH.pack(partition) + compact(records) + end
    topics = one + compact(topic.encode()) + place + end
    body = end + struct.pack(">hi", acks, TIMEOUT_MS) + topics + end
    head = struct.pack(">hhi", PRODUCE, PRODUCE_VERSION, 1) + string("bench") + end
    return LENGTH.pack(len(head) + len(body)) + head + body


def produce_answer_bytes(topic: str) -> int:
    """Size of the answer to it, length included, when nothing went wrong."""
    head, place = 4 + 4 + 1, 4 + 2 + 8 + 8 + 8 + 1 + 1 + 1
    return head + 1 + len(compact(topic.encode())) + 1 + place + 1 + 4 + 1


def record_batch(record_bytes: int, batch_bytes: int) -> bytes:
    """One batch of at least one record, about `batch_bytes` large."""
    count = max(1, batch_bytes // (record_bytes + 10))
    now = int(time.time() * 1000)
    value = (bytes(range(256)) * (record_bytes // 256 + 1))[:record_bytes]
    return batch.build([new_record(value, timestamp=now) for _ in range(count)])


class Pipe:
    """One connection that keeps `in_flight` copies of a request under way."""

    def __init__(self, bootstrap: str, request: bytes, answer_bytes: int, in_flight: int) -> None:
        self.link = connect(bootstrap)
        self.link.setblocking(False)
        self.request = memoryview(request * in_flight)
        self.request_bytes = len(request)
        self.answer_bytes = answer_bytes
        self.unsent = in_flight * len(request)
        self.partial = 0
        self.answered = 0
        self.owed = in_flight

    def pump(self) -> None:
        """Send as much of what is due as the socket takes."""
        total = len(self.request)
        while self.unsent:
            at = (total - self.unsent) % self.request_bytes
            end = min(total, at + self.unsent)
            try:
                self.unsent -= self.link.send(self.request[at:end])
            except BlockingIOError:
                return

    def take(self, into: memoryview, more: bool) -> None:
        """Count the answers that came and, if `more`, owe as many requests."""
        received = self.link.recv_into(into)
        if not received:
            raise ConnectionError("the broker closed the connection")
        whole, self.partial = divmod(self.partial + received, self.answer_bytes)
        self.answered += whole
        if more:
            self.owed += whole
            self.unsent += whole * self.request_bytes
            self.pump()


def drive(pipes: list[Pipe], seconds: float) -> float:
    """Keep the pipes full for `seconds`, then let them run dry; return the time it took."""
    into = memoryview(bytearray(RECEIVE_BYTES))
    with selectors.DefaultSelector() as selector:
        started = time.monotonic()
        for pipe in pipes:
            pipe.pump()
            selector.register(pipe.link, selectors.EVENT_READ, pipe)
        more = True
        while more or any(pipe.answered < pipe.owed for pipe in pipes):
            ready = selector.select(SILENCE_SECONDS_MAX)
            if not ready:
                raise TimeoutError("requests under way, and no answer")
            more = time.monotonic() - started < seconds
            for key, events in ready:
                pipe = key.data
                if events & selectors.EVENT_READ:
                    pipe.take(into, more)
                if events & selectors.EVENT_WRITE:
                    pipe.pump()
                wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if pipe.unsent else 0)
                if wanted != key.events:
                    selector.modify(pipe.link, wanted, pipe)
        elapsed = time.monotonic() - started
    for pipe in pipes:
        pipe.link.close()
    return elapsed


def produce(
    bootstrap: str,
    topic: str,
    *,
    partitions: int,
    connections: int,
    in_flight: int,
    record_bytes: int,
    batch_bytes: int,
    acks: int,
    seconds: float,
) -> Load:
    """Pipelined Produce requests of one batch each, spread over the partitions."""
    records = record_batch(record_bytes, batch_bytes)
    count = batch.parse_header(records).record_count
    before = end_offsets(bootstrap, topic, partitions)
    pipes = [
        Pipe(
            bootstrap,
            produce_frame(topic, number % partitions, records, acks),
            produce_answer_bytes(topic),
            in_flight,
        )
        for number in range(connections)
    ]
    elapsed = drive(pipes, seconds)
    answered = sum(pipe.answered for pipe in pipes)
    written = settled(bootstrap, topic, partitions, before + answered * count) - before
    if written != answered * count:
        raise AssertionError(f"{answered} requests answered, {written} of {count} each written")
    return Load(answered, answered * len(records) / 1e6, elapsed)


def produce_everywhere(
    bootstrap: str, topic: str, *, partitions: int, in_flight: int, seconds: float
) -> Load:
    """Single-record requests with acks=all to all partitions in turn, over one connection."""
    records = record_batch(100, 1)
    frames = [produce_frame(topic, index, records, -1) for index in range(partitions)]
    answer_bytes = produce_answer_bytes(topic)
    before = end_offsets(bootstrap, topic, partitions)
    link = connect(bootstrap)
    into = memoryview(bytearray(RECEIVE_BYTES))
    sent = answered = partial = 0
    started = time.monotonic()
    while (more := time.monotonic() - started < seconds) or answered < sent:
        due = in_flight - (sent - answered) if more else 0
        if due:
            link.sendall(b"".join(frames[(sent + n) % partitions] for n in range(due)))
            sent += due
        received = link.recv_into(into)
        if not received:
            raise ConnectionError("the broker closed the connection")
        whole, partial = divmod(partial + received, answer_bytes)
        answered += whole
    elapsed = time.monotonic() - started
    link.close()
    written = settled(bootstrap, topic, partitions, before + answered) - before
    if written != answered:
        raise AssertionError(f"{answered} requests answered, {written} records written")
    return Load(answered, answered * len(records) / 1e6, elapsed)


def settled(bootstrap: str, topic: str, partitions: int, expected: int) -> int:
    """The end offsets' sum once it is `expected`, or after a while whatever it is.

    With acks=1 an answer may precede the record's visibility by a flush.
    """
    deadline = time.monotonic() + SETTLE_SECONDS_MAX
    while (found := end_offsets(bootstrap, topic, partitions)) != expected:
        if time.monotonic() > deadline:
            break
        time.sleep(0.01)
    return found


def end_offsets(bootstrap: str, topic: str, partitions: int) -> int:
    """Sum of the partitions' end offsets, by ListOffsets v1; waits for leaders to be there."""
    wanted = b"".join(struct.pack(">iq", index, -1) for index in range(partitions))
    body = struct.pack(">ii", -1, 1) + string(topic) + LENGTH.pack(partitions) + wanted
    deadline = time.monotonic() + SETTLE_SECONDS_MAX
    with connect(bootstrap) as link:
        while True:
            link.sendall(frame(2, 1, body))
            answer = receive(link, memoryview(bytearray(4 << 20)))
            at = 4 + 4 + len(string(topic)) + 4
            found = struct.iter_unpack(">ihqq", answer[at : at + 22 * partitions])
            answers = [(error, offset) for _, error, _, offset in found]
            errors = {error for error, _ in answers} - {0}
            if not errors:
                return sum(offset for _, offset in answers)
            if time.monotonic() > deadline or not errors <= NO_LEADER_YET:
                raise AssertionError(f"ListOffsets: errors {errors}")
            time.sleep(0.2)


def receive(link: socket.socket, into: memoryview) -> memoryview:
    """One whole answer, without its length."""
    wanted, got = 4, 0
    while got < wanted:
        received = link.recv_into(into[got:])
        if not received:
            raise ConnectionError("the broker closed the connection")
        got += received
        if got >= 4:
            wanted = 4 + LENGTH.unpack_from(into)[0]
    return into[4:wanted]


def fetch_frame(topic: str, partition: int, offset: int, bytes_max: int) -> bytes:
    """A Fetch v11 request of one partition, without a session."""
    head = struct.pack(">iiiibii", -1, 500, 1, bytes_max, 0, 0, -1) + LENGTH.pack(1) + string(topic)
    place = struct.pack(">iiiqqi", 1, partition, -1, offset, -1, bytes_max)
    return frame(FETCH, FETCH_VERSION, head + place + struct.pack(">i", 0) + string(""))


def fetched(answer: memoryview, topic: str) -> memoryview:
    """The record bytes of the one partition in a Fetch v11 answer."""
    at = 4 + struct.calcsize(">ihii") + len(string(topic)) + 4
    _, error, _, _, _, aborted = struct.unpack_from(">ihqqqi", answer, at)
    if error:
        raise AssertionError(f"Fetch: error {error}")
    at += struct.calcsize(">ihqqqi") + 16 * max(aborted, 0) + 4
    size = LENGTH.unpack_from(answer, at)[0]
    return answer[at + 4 : at + 4 + max(size, 0)]


def next_offset(records: memoryview) -> int:
    """The offset after the last whole batch, or -1 where there is none."""
    at, last = 0, -1
    while len(records) - at >= HEADER_BYTES:
        size = BATCH_OVERHEAD_BYTES + LENGTH.unpack_from(records, at + BATCH_LENGTH_AT)[0]
        if len(records) - at < size:
            break
        last, at = at, at + size
    return batch.next_offset(batch.parse_header(records, last)) if last >= 0 else -1


def fetch(bootstrap: str, topic: str, *, partition: int, end: int, bytes_max: int) -> Load:
    """Read one partition from its start to the offset `end`, one request after the other."""
    into = memoryview(bytearray(bytes_max + RECEIVE_BYTES))
    link = connect(bootstrap)
    offset = requests = moved = 0
    started = time.monotonic()
    while offset < end:
        link.sendall(fetch_frame(topic, partition, offset, bytes_max))
        records = fetched(receive(link, into), topic)
        offset = max(offset, next_offset(records))
        moved += len(records)
        requests += 1
    elapsed = time.monotonic() - started
    link.close()
    return Load(requests, moved / 1e6, elapsed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["requests", "batches", "everywhere", "fetch"])
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--acks", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=4)
    given = parser.parse_args()
    if given.what == "fetch":
        end = end_offsets(given.bootstrap, given.topic, 1)
        load = fetch(given.bootstrap, given.topic, partition=0, end=end, bytes_max=FETCH_BYTES)
    elif given.what == "everywhere":
        load = produce_everywhere(
            given.bootstrap,
            given.topic,
            partitions=given.partitions,
            in_flight=given.partitions,
            seconds=given.seconds,
        )
    else:
        single = given.what == "requests"
        load = produce(
            given.bootstrap,
            given.topic,
            partitions=given.partitions,
            connections=4 if single else 2,
            in_flight=32 if single else 5,
            record_bytes=100 if single else 1000,
            batch_bytes=1 if single else 1_000_000,
            acks=given.acks,
            seconds=given.seconds,
        )
    figures = {"requests/s": load.requests_per_second, "MB/s": load.megabytes_per_second}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
