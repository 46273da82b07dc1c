"""The state of a pipeline's runs, from its event logs and its lock; nothing is changed.

never run ──▶ running ──▶ ended | stopped | failed
                 └──────▶ killed          the log has no end, and nobody holds the lock
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from headrace.pipeline.quarantine.batch_records import records_read
from headrace.pipeline.run.event_log import events_of
from headrace.pipeline.run.lock import holder_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from headrace.pipeline.run.storage import Storage

NEVER, RUNNING, ENDED, STOPPED, FAILED, KILLED = (
    "never run", "running", "ended", "stopped", "failed", "killed",
)  # fmt: skip
BAD = frozenset({FAILED, KILLED})

UNKNOWN_MAX = 100
"""Names of undeclared keys that a flow's state has."""


@dataclass
class FlowState:
    """A flow as the events of a run describe it."""

    state: str = "started"
    text: str | None = None
    """Why it waits or failed."""
    batch: int | None = None
    records: int = 0
    """Records that this run has read, without those refused by their values."""
    read: int = 0
    """Records that this run has read, with refused ones. For texts: JSON has `records`."""
    lag: int | None = None
    refused: int = 0
    """Records that this run moved to the quarantine. `records` has those whose rows failed a check,
    and not those that did not fit the columns."""
    late: int = 0
    restarts: int = 0
    failures: int = 0
    """Consecutive errors since the last finished batch."""
    failures_max: int | None = None
    """Number of such errors that ends the run; None: it waits for as long as it takes."""
    last_batch_at: str | None = None
    batch_seconds: float | None = None
    batch_records: int | None = None
    watermark: str | None = None
    failed_checks: dict[str, int] = field(default_factory=dict)
    """Rows that failed each check in this run."""
    unknown_keys: dict[str, int] = field(default_factory=dict)
    """Keys that no column has, by name, with their number in this run: at most UNKNOWN_MAX."""
    stale: dict[str, str] = field(default_factory=dict)
    """Checks of freshness that fail, with the time since when."""


@dataclass
class RunState:
    """The newest run of a pipeline with one profile."""

    pipeline: str
    profile: str | None
    state: str = NEVER
    run: str | None = None
    mode: str | None = None
    host: str | None = None
    pid: int | None = None
    started_at: str | None = None
    seen_at: str | None = None
    """Time of the last event."""
    code: int | None = None
    text: str | None = None
    flows: dict[str, FlowState] = field(default_factory=dict)

    @property
    def lag(self) -> int | None:
        """The sum of the flows' lags; None if no flow reported one."""
        known = [flow.lag for flow in self.flows.values() if flow.lag is not None]
        return sum(known) if known else None

    @property
    def is_bad(self) -> bool:
        """Whether the pipeline needs somebody: its last run failed or was killed."""
        return self.state in BAD

    def take(self, event: Mapping[str, Any]) -> None:
        """Take an event of the run into account."""
        self.seen_at = event.get("at")
        match event.get("event"):
            case "run":
                self.state, self.started_at = RUNNING, event["at"]
                self.run, self.mode = event["run"], event["mode"]
                self.host, self.pid = event["host"], event["pid"]
            case "flow":
                self._take_flow(event)
            case "batch":
                self._take_batch(event)
            case "stale":
                self._flow(event).stale[event["check"]] = event["since"]
            case "fresh":
                self._flow(event).stale.pop(event["check"], None)
            case "end":
                self.code, self.text = event["code"], event["text"]
                stopped = event["text"].startswith("stopped") or event["code"] == 130
                self.state = STOPPED if stopped else FAILED if event["code"] else ENDED

    def _flow(self, event: Mapping[str, Any]) -> FlowState:
        return self.flows.setdefault(event["flow"], FlowState())

    def _take_flow(self, event: Mapping[str, Any]) -> None:
        flow = self._flow(event)
        flow.restarts += event["state"] == "started" and flow.state == "waiting"
        flow.state, flow.text = event["state"], event.get("text")
        if event["state"] == "waiting":
            flow.failures, flow.failures_max = event.get("failures", 0), event.get("failures_max")

    def _take_batch(self, event: Mapping[str, Any]) -> None:
        flow = self._flow(event)
        flow.batch, flow.lag = event["batch"], event["lag"]
        flow.failures, flow.failures_max = 0, None
        flow.records += event["records"]
        flow.read += records_read(event)
        flow.refused += sum(event.get("refused", {}).values())
        flow.late += event.get("late", 0)
        flow.last_batch_at, flow.batch_seconds = event["at"], event["seconds"]
        flow.batch_records = event["records"]
        flow.watermark = event.get("watermark", flow.watermark)
        for names in event.get("unknown_keys", {}).values():
            for name, count in names.items():
                if name in flow.unknown_keys or len(flow.unknown_keys) < UNKNOWN_MAX:
                    flow.unknown_keys[name] = flow.unknown_keys.get(name, 0) + count
        for name, count in event.get("checks", {}).get("failed", {}).items():
            flow.failed_checks[name] = flow.failed_checks.get(name, 0) + count

    def to_json(self) -> dict[str, Any]:
        """Return the state for `--json`."""
        return {
            "pipeline": self.pipeline,
            "profile": self.profile,
            "state": self.state,
            "run": self.run,
            "mode": self.mode,
            "host": self.host,
            "pid": self.pid,
            "started_at": self.started_at,
            "seen_at": self.seen_at,
            "code": self.code,
            "text": self.text,
            "lag": self.lag,
            "flows": [{"flow": name, **_of_flow(flow)} for name, flow in self.flows.items()],
        }


def _of_flow(flow: FlowState) -> dict[str, Any]:
    return {name: value for name, value in vars(flow).items() if name != "read"}


def state_of(pipeline: str, profile: str | None, storage: Storage) -> RunState:
    """Return the state of a pipeline's newest run. OSError."""
    held = holder_of(storage.lock)
    log = _newest(storage.runs) if held is None else storage.runs / f"{held.run}.jsonl"
    state = RunState(pipeline, profile)
    if log is not None and log.exists():
        _take_all(state, events_of(log))
    if held is not None:
        # The lock is the truth: a disk that is full may have no event of this run.
        state.state, state.run, state.host, state.pid = RUNNING, held.run, held.host, held.pid
        state.started_at = state.started_at or held.since
    elif state.state == RUNNING:
        state.state = KILLED
    return state


def _take_all(state: RunState, events: Iterable[Mapping[str, Any]]) -> None:
    for event in events:
        state.take(event)


def _newest(directory: Path) -> Path | None:
    return max(directory.glob("*.jsonl"), default=None) if directory.is_dir() else None


def seconds_since(at: str | None, now: datetime | None = None) -> float | None:
    """Return how many seconds ago an event's time was; None without a time."""
    if at is None:
        return None
    return ((now or datetime.now(UTC)) - datetime.fromisoformat(at)).total_seconds()
