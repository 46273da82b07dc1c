"""A run of a pipeline: from the lock to the end of its last query."""

from __future__ import annotations

import os
import secrets
import socket
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError, Py4JJavaError

from headrace.model.errors import HeadraceError
from headrace.pipeline.declarations import DeclarationError, sources
from headrace.pipeline.exit_codes import DECISION_NEEDED
from headrace.pipeline.load import Finding, Loaded, finding_of, loaded
from headrace.pipeline.plan.decisions import refusal_of
from headrace.pipeline.plan.missing_topics import missing_topic
from headrace.pipeline.run.batch_events import BatchEvents, Counts
from headrace.pipeline.run.client_file import client_file, client_of
from headrace.pipeline.run.event_log import Event, EventLog, now_text
from headrace.pipeline.run.failures import (
    FAILED,
    NOT_FOUND,
    UNREACHABLE,
    USAGE,
    Failure,
    FlowPlace,
    failure_of,
)
from headrace.pipeline.run.flow_quarantine import FlowQuarantine
from headrace.pipeline.run.freshness import Freshness
from headrace.pipeline.run.lock import Holder, held
from headrace.pipeline.run.run_session import run_session
from headrace.pipeline.run.shipped_code import shipped
from headrace.pipeline.run.stop_requests import StopRequests
from headrace.pipeline.run.storage import Storage
from headrace.pipeline.run.supervisor import SESSION_ENDED, Ending, Flow, Mode, Supervisor
from headrace.pipeline.run.targets import Targets
from headrace.pipeline.run.topic_streams import TopicStreams
from headrace.pipeline.validate import findings_of
from headrace.spark.broker_errors import is_away
from headrace.terminal.failure import line_of

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from headrace.pipeline.graph import DeclaredFlow
    from headrace.pipeline.project import Project
    from headrace.pipeline.run.supervisor import Query

_EVENTS_SECONDS_MAX = 10.0
"""How long the end of a run waits for Spark's reports of its last batches."""


@dataclass(frozen=True)
class RunRequest:
    """A pipeline to run."""

    project: Project
    bootstrap: str
    settings: Mapping[str, str] = field(repr=False)
    """Client settings by Kafka's names; may hold secrets."""
    mode: Mode
    show: Callable[[Event], None]
    """Gets each event, after it was written to the log."""
    accept_loss: frozenset[str] = frozenset()
    """Flows that go on without records that were deleted before they were read."""


def run_pipeline(request: RunRequest, spark: SparkSession | None = None) -> Ending:
    """Run a pipeline to its end.

    `spark`: a session to use and to leave running; None: one is started. HeldError if another run
    holds the pipeline; DeclarationError for a storage that is not this pipeline's; OSError.
    """
    project = request.project
    storage = Storage.of(project)
    run = run_id()
    stops = StopRequests(storage.stop_request, run)
    holder = Holder(run, os.getpid(), socket.gethostname(), now_text())
    with ExitStack() as stack:
        stack.enter_context(stops.listening())
        stack.enter_context(held(storage.lock, holder))
        storage.claim(project.name, project.profile)
        stops.clear()
        log = EventLog(storage.runs / f"{run}.jsonl", request.show)
        stack.callback(log.close)
        log.add(
            "run",
            run=run,
            pipeline=project.name,
            profile=project.profile,
            mode=request.mode.value,
            pid=holder.pid,
            host=holder.host,
        )
        began = time.monotonic()
        try:
            _complete_replays(request, storage, log)
            ending = _Run(request, storage, run, log, stops).ended(spark)
        except BaseException as error:
            code, text = _unexpected(error)
            log.add("end", code=code, text=text, seconds=_since(began))
            raise
        log.add("end", code=ending.code, text=ending.text, seconds=_since(began))
        stops.clear()
        return ending


def _complete_replays(request: RunRequest, storage: Storage, log: EventLog) -> None:
    """Complete steps of replays that were interrupted."""
    if not (storage.own / "replays").is_dir():
        return
    from headrace.pipeline.replays.covered_records import CoveredRecords
    from headrace.pipeline.replays.replay_store import ReplayStore
    from headrace.pipeline.replays.steps import resume

    client = partial(client_of, request.bootstrap, request.settings)
    notes = CoveredRecords(client, request.project.identity, storage)
    for replay in resume(ReplayStore(storage.root), int(time.time() * 1000), notes):
        log.add("replay", replay=replay.id, flow=replay.flow, state=replay.state.value)


def run_id() -> str:
    """Return the id of a new run: its start in UTC and four random characters."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def _since(began: float) -> float:
    return round(time.monotonic() - began, 1)


def _unexpected(error: BaseException) -> tuple[int, str]:
    if isinstance(error, KeyboardInterrupt):
        return 130, "interrupted"
    if isinstance(error, DeclarationError):
        return USAGE, str(error)
    return FAILED, f"{type(error).__name__}: {error}"


@dataclass
class _Run:
    request: RunRequest
    storage: Storage
    run: str
    log: EventLog
    stops: StopRequests

    @property
    def _messages(self) -> Path:
        """The file of Spark's own messages, if the run started the session."""
        return self.storage.runs / f"{self.run}.log"

    @property
    def _session_ended(self) -> str:
        there = self._messages.exists()
        return SESSION_ENDED + (f"; its last messages are in {self._messages}" if there else "")

    def ended(self, spark: SparkSession | None) -> Ending:
        """Run the pipeline; return how it ended, also if Spark's Java process has."""
        try:
            return self._to_its_end(spark)
        except Py4JJavaError:
            raise
        except Py4JError:
            return Ending(FAILED, self._session_ended)

    def _to_its_end(self, spark: SparkSession | None) -> Ending:
        project = self.request.project
        with ExitStack() as stack:
            # Before Spark's start, which takes longest.
            continuous = self.request.mode is Mode.CONTINUOUS
            if not continuous and (ending := self._asked(())) is not None:
                return ending
            if spark is None:
                spark = stack.enter_context(run_session(project, self._messages))
                self.stops.listen()
            if (refusal := refusal_of(project, self.storage, spark)) is not None:
                return Ending(DECISION_NEEDED, refusal)
            found = stack.enter_context(loaded(project))
            findings, topics = findings_of(spark, found)
            if findings:
                return self._refused(findings)
            if (ending := self._asked(topics - found.graph.sent_topics)) is not None:
                return ending
            if (unknown := self._unknown_flow(found)) is not None:
                return Ending(USAGE, unknown)
            archive = stack.enter_context(shipped(spark, found, self.storage))
            cluster = stack.enter_context(
                client_file(spark, self.request.bootstrap, self.request.settings)
            )
            streams = partial(
                TopicStreams,
                spark,
                cluster,
                found.graph,
                directory=project.directory,
                archive=archive,
            )
            targets = Targets(found.graph, self.storage, cluster, project.identity)
            return self._supervised(spark, found, streams, targets)

    def _asked(self, topics: Collection[str]) -> Ending | None:
        """Ask a broker for these topics; return the end of the run if one does not exist.

        Brokers that are away end a run that ends by itself; any other error is its queries' to
        report.
        """
        request = self.request
        # Queries of a continuous run wait for brokers themselves.
        seconds = 0.0 if request.mode is Mode.CONTINUOUS else None
        try:
            with client_of(request.bootstrap, request.settings, seconds) as client:
                missing = missing_topic(client, topics)
        except ValueError:
            return None
        except HeadraceError as error:
            if request.mode is Mode.CONTINUOUS or not is_away(error):
                return None
            return Ending(UNREACHABLE, line_of(error)[0])
        return None if missing is None else Ending(NOT_FOUND, missing)

    def _unknown_flow(self, found: Loaded) -> str | None:
        """Return the problem of a flow whose loss is accepted and that is not declared."""
        names = [flow.name for flow in found.graph.flows if flow.target not in found.graph.views]
        for name in sorted(self.request.accept_loss.difference(names)):
            return f"--accept-loss {name}: no such flow; there are {', '.join(sorted(names))}"
        return None

    def _refused(self, findings: list[Finding]) -> Ending:
        for finding in findings:
            self.log.add("finding", text=str(finding))
        first = str(findings[0])
        more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
        return Ending(USAGE, f"{first}{more}")

    def _supervised(
        self,
        spark: SparkSession,
        found: Loaded,
        streams: Callable[[FlowQuarantine], TopicStreams],
        targets: Targets,
    ) -> Ending:
        project = self.request.project
        flows = [flow for flow in found.graph.flows if flow.target not in found.graph.views]
        places = {
            flow.name: FlowPlace(
                flow.name,
                project.directory,
                self.storage.checkpoint(flow.target, flow.name),
                flow.checks,
            )
            for flow in flows
        }
        events = BatchEvents(
            {f"{project.identity}.{flow.name}": flow.name for flow in flows},
            {
                flow.name: Counts(
                    self.storage.checks(flow.target, flow.name),
                    self.storage.refused(flow.target, flow.name),
                    self.storage.unknown_keys(flow.target, flow.name),
                )
                for flow in flows
            },
        )
        freshness = Freshness(
            self.storage.newest, {flow.name: flow.fresh for flow in flows}, datetime.now(UTC)
        )
        wake = self.stops.happened
        supervisor = Supervisor(
            flows=[
                Flow(
                    flow.name,
                    partial(self._start, flow, streams, targets),
                    partial(self._failure, places[flow.name]),
                )
                for flow in flows
            ],
            mode=self.request.mode,
            idle_seconds=project.trigger_seconds + 1,
            report=self.log.add,
            stop_requested=self.stops.current,
            clock=time.monotonic,
            pause=partial(_pause, wake),
            each_turn=lambda: events.write(self.log, freshness),
            worker_losses_max=project.worker_losses_max,
            stop_seconds_max=project.stop_seconds_max,
            session_ended=self._session_ended,
        )
        with events.listening(spark, supervisor.finished_batch):
            ending = supervisor.run()
            events.drain(spark, _EVENTS_SECONDS_MAX)
            events.write(self.log, freshness)
            freshness.save()
        return ending

    def _start(
        self,
        flow: DeclaredFlow,
        streams: Callable[[FlowQuarantine], TopicStreams],
        targets: Targets,
    ) -> Query:
        given = streams(FlowQuarantine.of(targets.pipeline, self.storage, flow))
        given.fail_on_data_loss = flow.name not in self.request.accept_loss
        with sources(given):
            rows = flow.function()
        writer = targets.writer(flow, rows, given)
        if self.request.mode is Mode.ONCE:
            writer = writer.trigger(availableNow=True)
        else:
            project = self.request.project
            table = flow.target in targets.graph.tables
            interval = project.trigger if table else project.topic_trigger
            writer = writer.trigger(processingTime=interval)
        return writer.start()

    def _failure(self, place: FlowPlace, error: Exception | str) -> Failure:
        if isinstance(error, str):
            return failure_of(error, place)
        if isinstance(error, Py4JJavaError):
            return failure_of(str(error.java_exception.toString()), place)
        if isinstance(error, Py4JError):
            return Failure(FAILED, self._session_ended)
        if "headrace." in str(error):
            return failure_of(str(error), place)
        finding = finding_of(error, place.directory)
        return Failure(FAILED, f"{place.name}: {finding}")


def _pause(wake: threading.Event, seconds: float) -> None:
    if wake.is_set():
        time.sleep(min(seconds, 0.05))
    else:
        wake.wait(seconds)
