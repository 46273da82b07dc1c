"""`headrace produce --follow FILE`: ship a growing file, each line at least once.

The position is stored next to the file (or at `--state`). It never passes a line whose record is
not acknowledged: after a restart lines acknowledged since the last stored position are sent again,
and none is left out. Unreachable brokers are waited for.
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

from headrace.cli.records.consume_outage import Outage
from headrace.cli.records.sending import Records, Sender
from headrace.client.producer.producer import Producer
from headrace.client.sync import run
from headrace.client.transport.port import ClientError
from headrace.model.errors import ApiError, ErrorCode, HeadraceError
from headrace.posix.growing_file import Mark, Tail
from headrace.terminal.broker_options import BrokerOptions
from headrace.terminal.failure import (
    EXIT_FAILED,
    EXIT_UNREACHABLE,
    CommandError,
    error_json,
    line_of,
)
from headrace.terminal.output import counted, note, note_error
from headrace.terminal.permission_needs import Need, needing

POLL_SECONDS = 0.2
SAVE_BYTES = 4 << 20
"""The most bytes shipped between two writes of the position."""
STOP_SECONDS = 5.0
"""How long acknowledgements are awaited after a signal."""
_STATE_VERSION = 1
_START_AGAIN = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
"""Errors of a producer id that the broker no longer knows; the producer continues with a new id."""


class _Overdue(BaseException):
    """Acknowledgements did not arrive within STOP_SECONDS of a signal.

    Not an Exception, so that it passes through the client's retries.
    """


def ship(
    cluster: BrokerOptions,
    topic: str,
    file: Path,
    state: Path | None,
    records: Records,
    *,
    from_end: bool,
) -> int:
    """Ship `file` until SIGTERM or Ctrl-C; return the exit code: 0 if every line was acknowledged.

    CommandError if another process uses the same position file.
    """
    place = state or file.with_name(f"{file.name}.{topic}.headrace")
    with _locked(place):
        shipper = Shipper(cluster, topic, file, place, records, from_end=from_end)
        try:
            with _stopped_by_signals(shipper), shipper.needing():
                shipper.run()
        except HeadraceError as error:
            text, code = line_of(error)
            note_error(text, error_json(error))
            return code
        finally:
            # The summary is the last line of output, also after an error.
            note(shipper.summary())
        return EXIT_UNREACHABLE if shipper.unacknowledged else 0


class Shipper:
    """Ships the lines of one growing file to one topic."""

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
        self.shipped = 0
        """Lines of this run before the stored position."""
        self.unacknowledged = 0
        """Lines read after the stored position."""
        self._unread = 0
        self._topic = topic
        self._file = file
        self._waiting = False
        """Whether a note said that the file does not exist yet."""
        self._records = records
        self._place = place
        self._client = cluster.client(patient=True, retry_seconds=float("inf"))
        self._outage = Outage(self._client)
        self._outage.await_brokers(float("inf"))
        self._saved = _load(place)
        self._tail = Tail(file, self._saved, from_end=from_end, warn=note)
        self._sent: Mark | None = None
        """The position after the last line that the producer accepted.

        None: none since a rewind.
        """
        self._sent_lines = 0
        """Lines between the stored position and `_sent`."""
        self._producer = records.producer(self._client)
        self._sender = Sender(self._producer, topic, records.parser(), records.partition)
        self._unsaved = 0

    def stop(self) -> None:
        """Finish the batches under way, and no longer wait for unreachable brokers."""
        self.stopping = True
        self._client.retry_seconds = 0.0
        self._client.outage_seconds = 0.0

    def run(self) -> None:
        """Ship the file's lines until `stop` is called."""
        self._announce()
        try:
            self._ship()
            with contextlib.suppress(ClientError):
                self._save()
        except _Overdue:
            pass
        finally:
            self._unread = self._tail.lines_left()
            self._tail.close()
            self._client.close()

    def needing(self) -> contextlib.AbstractContextManager[None]:
        """Make authorization errors name the missing permission."""
        return needing(self._client, [Need("write", "topic", self._topic)])

    def summary(self) -> str:
        """Return the numbers of shipped and unshipped lines, as a sentence."""
        left = self.unacknowledged + self._unread
        text = f"{self._file}: {counted(self.shipped, 'line')} shipped, {left} not shipped"
        return f"{text}; the next start ships them" if left else text

    def _announce(self) -> None:
        mark = self._tail.mark()
        brokers = ",".join(map(str, self._client.bootstrap))
        note(
            f"{self._file}: shipping to topic {self._topic} from byte"
            f" {(mark.position if mark else 0)}, at {brokers}"
        )

    def _ship(self) -> None:
        while not self.stopping:
            try:
                self._turn()
            except ApiError as error:
                if error.code not in _START_AGAIN:
                    raise
                note(
                    f"the broker no longer knows this producer id ({error.code.name}); retrying"
                    " with a new one"
                )
                self._start_again()
            except ClientError:
                if not self.stopping:
                    raise

    def _turn(self) -> None:
        if not self._tail.open():
            if not self._waiting:
                self._waiting = True
                note(f"{self._file}: does not exist yet; waiting for it")
            time.sleep(POLL_SECONDS)
            return
        if self._saved is None:
            # The first file's identity is stored now: it may be renamed before its first record
            # is acknowledged.
            self._note(self._tail.mark())
        lines = self._tail.lines()
        self.unacknowledged += len(lines)
        if lines:
            run(self._sender.send(lines))
        self._sent = self._tail.mark()
        self._sent_lines += len(lines)
        if not lines:
            self._save()
            time.sleep(POLL_SECONDS)
            return
        run(self._producer.dispatch())
        self._unsaved += sum(map(len, lines)) + len(lines)
        if self._unsaved >= SAVE_BYTES:
            self._save()

    def _save(self) -> None:
        """Wait until all sent records are acknowledged, then store the position after them.

        Lines that the producer has not accepted (`send` failed) come after `_sent` and are not
        counted.
        """
        run(self._producer.flush())
        if self._sent_lines:
            self._outage.brokers_answer()
        self._note(self._sent)
        self.shipped += self._sent_lines
        self.unacknowledged -= self._sent_lines
        self._sent_lines = self._unsaved = 0

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
        self._sent = None
        self.unacknowledged = self._sent_lines = self._unsaved = 0


def _load(place: Path) -> Mark | None:
    """Return the stored position; None at the first start. CommandError: the file is invalid."""
    try:
        state = json.loads(place.read_text("utf-8"))
        if state["version"] != _STATE_VERSION:
            raise ValueError("written by another version")
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
            f"{place}: is not a valid position ({error}); remove it to ship the file from its"
            " beginning",
            EXIT_FAILED,
        ) from None


def _store(place: Path, mark: Mark) -> None:
    """Store a position atomically and durably."""
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
            raise CommandError(f"{place}: another process is using this position") from None
        yield


@contextlib.contextmanager
def _stopped_by_signals(shipper: Shipper) -> Iterator[None]:
    """Stop after the next acknowledgement on SIGTERM or Ctrl-C, at once on a second one.

    Brokers that do not answer within STOP_SECONDS are no longer waited for.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        if shipper.stopping:
            raise KeyboardInterrupt
        shipper.stop()
        signal.setitimer(signal.ITIMER_REAL, STOP_SECONDS)

    def overdue(number: int, frame: FrameType | None) -> None:
        raise _Overdue

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    before[signal.SIGALRM] = signal.signal(signal.SIGALRM, overdue)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
