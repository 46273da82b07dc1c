"""Runs the queries of a pipeline until they have ended: restarts, back-off, stop, idleness.

    starting ──▶ running ──▶ done            its trigger ended it, or it was stopped
                   │  ▲
                   ▼  │ after 1, 2, 4 … 60 s
                 waiting                     the brokers are away, or a worker was lost

Any other error of one query ends the run: the other queries stop after their batch. A query that
has finished a batch since its restart waits one second again at its next error. One that loses its
worker again and again without a finished batch ends the run: its batch needs more memory.

A session that no longer answers, as Spark's Java process has ended, ends the run at once. After a
request to stop the run ends as it was asked to: the process may have got the same signal.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from headrace.pipeline.project import STOP_SECONDS_MAX, WORKER_LOSSES_MAX
from headrace.pipeline.run.failures import FAILED, Failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

BACKOFF_SECONDS_MIN = 1.0
BACKOFF_SECONDS_MAX = 60.0
ONCE_RESTARTS_MAX = 3
"""Restarts after a lost worker in a run that ends by itself."""
POLL_SECONDS = 0.5
SESSION_ENDED = (
    "Spark's Java process has ended: start the run again, and each flow repeats its last batch"
)


class Mode(Enum):
    """When a run ends by itself."""

    ONCE = "once"
    """After the records that were in the topics at its start."""
    UNTIL_IDLE = "until-idle"
    """When no query has had a new record for longer than its trigger."""
    CONTINUOUS = "continuous"
    """Never."""


class Query(Protocol):
    """The part of Spark's StreamingQuery that is used here."""

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        """Whether the query runs."""

    @property
    def status(self) -> dict[str, Any]:
        """The query's current step."""

    def exception(self) -> object:
        """Return the error that ended the query; None without one."""

    def stop(self) -> None:
        """Stop the query; a batch that runs is interrupted and repeated by the next start."""


class SessionEndedError(Exception):
    """A query could not be asked for its state: its session no longer answers."""


@contextmanager
def _asking() -> Iterator[None]:
    """Raise SessionEndedError for any error of a call to a query: py4j has several kinds."""
    try:
        yield
    except Exception as error:
        raise SessionEndedError(str(error)) from error


class Flow(NamedTuple):
    """A flow that can be started, and again from its checkpoint."""

    name: str
    start: Callable[[], Query]
    failure: Callable[[Exception | str], Failure]
    """Returns the meaning of an error of this flow."""


class Ending(NamedTuple):
    """The end of a run."""

    code: int
    text: str


class Stop(NamedTuple):
    """A request to stop after the running batches."""

    code: int
    by: str
    """Its origin, such as "SIGTERM"."""


@dataclass
class _Running:
    flow: Flow
    query: Query | None = None
    failures: int = 0
    """Consecutive errors without a finished batch in between."""
    losses: int = 0
    """Consecutive losses of a worker, without a finished batch or another error in between."""
    restart_at: float | None = None
    batches: int = 0
    seen: int = 0
    """Finished batches that were taken into account."""
    done: bool = False

    def is_active(self) -> bool:
        """Return whether the query runs. Raises SessionEndedError."""
        with _asking():
            return self.query is not None and self.query.isActive

    def error(self) -> object:
        """Return the error that ended the query; None without one. Raises SessionEndedError."""
        with _asking():
            return None if self.query is None else self.query.exception()

    def is_resting(self) -> bool:
        """Return whether no batch runs. Raises SessionEndedError."""
        with _asking():
            return self.query is None or not self.query.status["isTriggerActive"]

    def is_idle(self) -> bool:
        """Return whether the last trigger found no record. Raises SessionEndedError."""
        if self.query is None:
            return self.done
        with _asking():
            status = self.query.status
        waits = status["message"].startswith("Waiting")  # Not while it is initialised.
        return waits and not status["isTriggerActive"] and not status["isDataAvailable"]


@dataclass
class Supervisor:
    """The queries of one run. `finished_batch` may be called by any thread."""

    flows: Sequence[Flow]
    mode: Mode
    idle_seconds: float
    """How long all queries must be idle before UNTIL_IDLE ends: longer than a trigger."""
    report: Callable[..., None]
    """Gets an event and its values."""
    stop_requested: Callable[[], Stop | None]
    clock: Callable[[], float]
    pause: Callable[[float], None]
    """Waits for some seconds, or shorter if something has happened."""
    each_turn: Callable[[], None] = lambda: None
    worker_losses_max: int = WORKER_LOSSES_MAX
    stop_seconds_max: float = STOP_SECONDS_MAX
    """How long the end of the run waits for running batches before it interrupts them."""
    session_ended: str = SESSION_ENDED
    """The end of a run whose session no longer answers."""
    _running: dict[str, _Running] = field(default_factory=dict)
    _idle_since: float | None = None

    def finished_batch(self, flow: str) -> None:
        """Note that a flow has finished a batch."""
        if flow in self._running:
            self._running[flow].batches += 1

    def run(self) -> Ending:
        """Run all flows; return how the run ended. Each query has ended then."""
        self._running = {flow.name: _Running(flow) for flow in self.flows}
        ending: Ending | None = None
        try:
            for each in self._running.values():
                ending = ending or self._start(each)
            while ending is None:
                ending = self._turn()
                if ending is None:
                    self.pause(POLL_SECONDS)
        except SessionEndedError:
            ending = self._stopped() or Ending(FAILED, self.session_ended)
        finally:
            self._stop_all()
        self.each_turn()
        return ending

    def _turn(self) -> Ending | None:
        self.each_turn()
        if (ending := self._stopped()) is not None:
            return ending
        for each in self._running.values():
            if (ending := self._look(each)) is not None:
                return ending
        if all(each.done for each in self._running.values()):
            return Ending(0, "all records are processed")
        if self.mode is Mode.UNTIL_IDLE and self._idle_long_enough():
            return Ending(0, "no new records")
        return None

    def _stopped(self) -> Ending | None:
        stop = self.stop_requested()
        return None if stop is None else Ending(stop.code, f"stopped by {stop.by}")

    def _look(self, each: _Running) -> Ending | None:
        if each.batches > each.seen:
            each.seen, each.failures, each.losses = each.batches, 0, 0
            self._idle_since = None
        if each.done:
            return None
        if each.query is None:
            due = each.restart_at is not None and self.clock() >= each.restart_at
            return self._start(each) if due else None
        if each.is_active():
            return None
        error = each.error()
        each.query = None
        if error is not None:
            return self._failed(each, each.flow.failure(str(error)))
        each.done = True
        self.report("flow", flow=each.flow.name, state="done")
        return None

    def _start(self, each: _Running) -> Ending | None:
        each.restart_at = None
        try:
            each.query = each.flow.start()
        except Exception as error:  # noqa: BLE001 - Spark raises many kinds; all end the flow
            return self._failed(each, each.flow.failure(error))
        self.report("flow", flow=each.flow.name, state="started")
        return None

    def _failed(self, each: _Running, failure: Failure) -> Ending | None:
        each.failures += 1
        lost = failure.passing and failure.code == FAILED
        each.losses = each.losses + 1 if lost else 0
        name = each.flow.name
        if not self._may_restart(each, failure):
            text = failure.text
            if lost and each.losses >= self.worker_losses_max:
                text += (
                    f"; lost {each.losses} times without a finished batch: give workers more"
                    " memory, or raise worker_losses_max in pipeline.toml"
                )
            self.report("flow", flow=name, state="failed", code=failure.code, text=text)
            each.done = True
            return Ending(failure.code, text)
        seconds = backoff_seconds(each.failures)
        each.restart_at = self.clock() + seconds
        self.report(
            "flow",
            flow=name,
            state="waiting",
            text=failure.text,
            retry_seconds=seconds,
            failures=each.losses if lost else each.failures,
            failures_max=self._losses_max if lost else None,
        )
        return None

    def _may_restart(self, each: _Running, failure: Failure) -> bool:
        if not failure.passing:
            return False
        if failure.code == FAILED:
            return each.losses < self._losses_max
        return self.mode is Mode.CONTINUOUS

    @property
    def _losses_max(self) -> int:
        """The number of lost workers in a row that ends the run."""
        if self.mode is Mode.CONTINUOUS:
            return self.worker_losses_max
        return min(self.worker_losses_max, ONCE_RESTARTS_MAX + 1)

    def _idle_long_enough(self) -> bool:
        if not all(each.is_idle() for each in self._running.values()):
            self._idle_since = None
            return False
        if self._idle_since is None:
            self._idle_since = self.clock()
        return self.clock() - self._idle_since >= self.idle_seconds

    def _stop_all(self) -> None:
        """Stop each query between two batches, or after the batch that runs now.

        A batch that runs for longer than `stop_seconds_max` is interrupted; the next start repeats
        it.
        """
        before = {name: each.batches for name, each in self._running.items()}
        deadline = self.clock() + self.stop_seconds_max
        while any(each.query is not None for each in self._running.values()):
            late = self.clock() >= deadline
            for name, each in self._running.items():
                try:
                    self._end(each, late=late, finished=each.batches > before[name])
                except SessionEndedError:
                    each.query = None
                    self.report("flow", flow=name, state="interrupted", text=SESSION_ENDED)
            if any(each.query is not None for each in self._running.values()):
                self.pause(POLL_SECONDS)

    def _end(self, each: _Running, *, late: bool, finished: bool) -> None:
        """Stop a query that rests, is `finished` with a batch or `late`. SessionEndedError."""
        if each.query is None:
            return
        if not each.is_active():
            each.query = None
        elif finished or each.is_resting():
            self._stop(each, each.query)
        elif late:
            text = f"its batch has not ended within {self.stop_seconds_max:g} s"
            self.report("flow", flow=each.flow.name, state="interrupted", text=text)
            self._stop(each, each.query)

    def _stop(self, each: _Running, query: Query) -> None:
        """Stop a query. The run ends without one that does not stop: its session ends it."""
        each.query = None
        try:
            query.stop()
        except Exception as error:  # noqa: BLE001 - Spark's TimeoutException comes by py4j
            text = f"the query does not stop: {str(error).partition(chr(10))[0]}"
            self.report("flow", flow=each.flow.name, state="interrupted", text=text)


def backoff_seconds(failures: int) -> float:
    """Return the wait before the restart after this many consecutive errors: 1, 2, 4 … 60 s."""
    return min(BACKOFF_SECONDS_MAX, BACKOFF_SECONDS_MIN * 2.0 ** min(failures - 1, 10))
