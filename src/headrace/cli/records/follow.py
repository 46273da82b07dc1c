"""`headrace produce --follow FILE`: ships a growing file, each line at least once.

The place reached is noted beside the file (or at `--state`) after its records are acknowledged, so
a new start goes on there: what was acknowledged but not yet noted is sent again, nothing is left
out. Brokers that go away are waited for.
"""

import contextlib
import fcntl
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from headrace.cli.records.sending import Records, Sender
from headrace.cli.records.tail import Mark, Tail
from headrace.cli.shared.broker_options import BrokerOptions
from headrace.cli.shared.failure import EXIT_FAILED, CommandError
from headrace.cli.shared.output import note
from headrace.client.producer import Producer
from headrace.client.sync import run
from headrace.client.transport import ClientError
from headrace.model.errors import ApiError, ErrorCode

POLL_SECONDS = 0.2
SAVE_BYTES = 4 << 20
"""The place is noted at the latest after so many bytes."""
_STATE_VERSION = 1
_START_AGAIN = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
"""The broker has forgotten this producer: a new one takes over from the place noted last."""


def ship(
    cluster: BrokerOptions,
    topic: str,
    file: Path,
    state: Path | None,
    records: Records,
    *,
    from_end: bool,
) -> None:
    """Ship `file` until SIGTERM or Ctrl-C. CommandError where another process does so already."""
    place = state or file.with_name(f"{file.name}.{topic}.headrace")
    with _locked(place):
        shipper = Shipper(cluster, topic, file, place, records, from_end=from_end)
        with _stopped_by_signals(shipper):
            shipper.run()


class Shipper:
    """One file on its way to one topic."""

    def __init__(
        self,
        cluster: BrokerOptions,
        topic: str,
        file: Path,
        place: Path,
        records: Records,
        *,
        from_end: bool,
    ) -> None:
        self.stopping = False
        self._topic = topic
        self._file = file
        self._waiting = False
        """Whether it was said that the file is not there yet."""
        self._records = records
        self._place = place
        self._client = cluster.client(patient=True, retry_seconds=float("inf"))
        self._saved = _load(place)
        self._tail = Tail(file, self._saved, from_end=from_end, warn=note)
        self._producer = records.producer(self._client)
        self._sender = Sender(self._producer, topic, records.parser(), records.partition)
        self._unsaved = 0

    def stop(self) -> None:
        """Finish what is under way, and no longer wait for brokers that are gone."""
        self.stopping = True
        self._client.retry_seconds = 0.0

    def run(self) -> None:
        """Ship until told to stop."""
        try:
            while not self.stopping:
                try:
                    self._turn()
                except ApiError as error:
                    if error.code not in _START_AGAIN:
                        raise
                    note(f"the broker has forgotten this producer ({error.code.name}); again")
                    self._start_again()
                except ClientError:
                    if not self.stopping:
                        raise
            with contextlib.suppress(ClientError):
                self._save()
        finally:
            self._tail.close()
            self._client.close()

    def _turn(self) -> None:
        if self._tail.mark() is None and not self._waiting:
            self._waiting = True
            note(f"{self._file}: is not there yet; waiting for it")
        if self._saved is None:
            # Which file was begun must be known even if it is renamed before its first record
            # is acknowledged.
            self._note(self._tail.mark())
        lines = self._tail.lines()
        if not lines:
            self._save()
            time.sleep(POLL_SECONDS)
            return
        run(self._sender.send(lines))
        run(self._producer.dispatch())
        self._unsaved += sum(map(len, lines)) + len(lines)
        if self._unsaved >= SAVE_BYTES:
            self._save()

    def _save(self) -> None:
        """Have everything acknowledged, then note the place."""
        run(self._producer.flush())
        self._note(self._tail.mark())
        self._unsaved = 0

    def _note(self, mark: Mark | None) -> None:
        if mark is not None and mark != self._saved:
            _store(self._place, mark)
            self._saved = mark

    def _start_again(self) -> None:
        self._producer = Producer(
            self._client, acks=self._producer.acks, compression=self._producer.compression
        )
        self._sender.producer = self._producer
        self._tail.rewind(self._saved)
        self._unsaved = 0


def _load(place: Path) -> Mark | None:
    """Return the place noted; None at the first start. CommandError where the note is damaged."""
    try:
        state = json.loads(place.read_text("utf-8"))
        if state["version"] != _STATE_VERSION:
            raise ValueError("of another version")
        return Mark(
            int(state["device"]),
            int(state["inode"]),
            int(state["position"]),
            int(state["head_bytes"]),
            str(state["head"]),
        )
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise CommandError(
            f"{place}: no position can be read from it ({error});"
            " remove it to ship the file from its beginning",
            EXIT_FAILED,
        ) from None


def _store(place: Path, mark: Mark) -> None:
    """Note a place, whole or not at all, also through a power cut."""
    temporary = place.with_name(place.name + ".tmp")
    with temporary.open("w", encoding="utf-8") as file:
        json.dump({"version": _STATE_VERSION, **mark._asdict()}, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(place)


@contextlib.contextmanager
def _locked(place: Path) -> Iterator[None]:
    lock = place.with_name(place.name + ".lock")
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CommandError(f"{place}: another process ships with this position") from None
        yield


@contextlib.contextmanager
def _stopped_by_signals(shipper: Shipper) -> Iterator[None]:
    """End the work after the next acknowledgement on SIGTERM and Ctrl-C, a second one at once."""

    def stop(number: int, frame: FrameType | None) -> None:
        if shipper.stopping:
            raise KeyboardInterrupt
        shipper.stop()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
