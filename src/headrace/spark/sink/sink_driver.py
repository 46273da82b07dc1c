"""The driver's part of a write: begin a run, decide a batch, end its transactions (ADR 36)."""

import logging
import time
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

from headrace.client.producer import transactions
from headrace.client.producer.transactions import NO_TIMEOUT_MS, Writer
from headrace.client.sync import run
from headrace.client.transport.port import ClientError
from headrace.model.errors import ApiError
from headrace.spark.broker_errors import sink_error
from headrace.spark.checks.verdict import check_batch, report, sum_of
from headrace.spark.errors import SinkError
from headrace.spark.quarantine.manifest import NOTHING_REFUSED
from headrace.spark.quarantine.sink_batch import CheckedRows, QuarantinedBatch
from headrace.spark.sink.decisions import Decision, DecisionLog, LastDecision
from headrace.spark.sink.sink_options import SinkOptions
from headrace.spark.sink.sink_task import RunToken, SinkMessage, client_of
from headrace.spark.source.checkpoint import PlannedBatch, planned, query_id
from headrace.spark.source.offsets import starting_offsets

_log = logging.getLogger(__name__)

_DECISION_TIMEOUT_MS = 10_000
"""Timeout of the decision's own transaction: shorter than the time the tasks' must have left."""
LEFT_MS_MIN = 30_000
"""Least time in ms that a batch's transactions must have left when it is decided."""
BATCH_QUERY = "batch"
_begun: set[tuple[str, str]] = set()
"""The sinks whose leftover transactions this process has aborted, as (bootstrap, prefix)."""


class SinkDriver:
    """The driver's part of one sink. Close it. Its errors are SinkErrors, one sentence each."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._client = client_of(options)
        self._decisions = DecisionLog(self._client, options.decisions_topic)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def begin(self) -> RunToken:
        """Fence all earlier runs, finish what they decided, and abort their other transactions."""
        options = self._options
        query = query_id(options.checkpoint) if options.checkpoint else BATCH_QUERY
        try:
            driver, last = self._take_over()
            swept = (options.bootstrap, options.prefix)
            if swept not in _begun or (last is not None and not last.ended):
                self._sweep(driver)
                _begun.add(swept)
            if last is not None:
                self._check_query(last.decision, query)
        except (ClientError, ApiError) as error:
            raise sink_error(error, f"pipeline {options.pipeline}: {error}") from error
        decided = -1 if last is None else last.decision.batch
        return RunToken(uuid.uuid4().hex, driver, query, decided)

    def _check_query(self, last: Decision, query: str) -> None:
        """Raise SinkError if the checkpoint belongs to another query than the last decision."""
        if last.query == query:
            return
        behind = starting_offsets(last.positions.splitlines())
        option = f" and startingOffsets={behind} to go on behind it" if behind else ""
        raise SinkError(
            f"pipeline {self._options.pipeline}: batch {last.batch} of another query ({last.query})"
            " was its last one, and this one's checkpoint knows nothing of it; put the old"
            " checkpoint back, or, where the query keeps no state, give the pipeline a new name"
            f"{option}"
        )

    def _take_over(self) -> tuple[Writer, LastDecision | None]:
        run(self._decisions.create())
        driver = run(
            transactions.take_id(self._client, self._options.driver_id, _DECISION_TIMEOUT_MS)
        )
        last = run(self._decisions.last())
        if last is not None and not last.ended:
            self._finish(last.decision)
        return driver, last

    def commit(self, messages: Sequence[SinkMessage], batch: int | None) -> None:
        """Decide the batch, then commit its transactions; `batch` None: the next batch write."""
        options = self._options
        token = messages[0].token if messages else None
        token = token or self.begin()
        writers = [message.writer for message in messages if message.writer is not None]
        number = batch if batch is not None else self._job(token)
        checkpoint = options.checkpoint
        what = planned(checkpoint, number) if checkpoint else PlannedBatch("", "")
        quarantined = None
        if options.quarantine is not None:
            quarantined = QuarantinedBatch(options.quarantine, token.query, number)
        if number <= token.decided:
            self._check_repetition(number, what)
            self._abort(writers)
            self.abort(messages, token)  # Attempts without a message, and those still to come.
            if quarantined is not None:
                quarantined.publish(self._manifest_of(number))
            return
        checks, tally = options.checks, sum_of(message.tally for message in messages)
        if checks is not None:
            check_batch(checks, tally, batch)
        manifest = NOTHING_REFUSED
        if quarantined is not None:
            checked = CheckedRows(
                tuple(Path(message.refused) for message in messages if message.refused),
                tally.rows,
                checkpoint or "",
            )
            manifest = quarantined.collect({message.run for message in messages}, checked)
        decision = Decision(
            token.query,
            number,
            what.digest,
            what.positions,
            [list(writer) for writer in writers],
            manifest or None,
        )
        try:
            self._check_open(writers, number)
            self._decide(token.driver, decision)
            self._finish(decision)
            self._sweep(token.driver)
        except (ClientError, ApiError) as error:
            raise sink_error(
                error, f"pipeline {options.pipeline}: batch {number}: {error}; {self._remedy}"
            ) from error
        if quarantined is not None:
            quarantined.publish(manifest)
        if checks is not None and batch is not None:
            report(checks, tally, batch)

    def _manifest_of(self, batch: int) -> int:
        """Return the digest of the manifest that the batch's decision names."""
        last = run(self._decisions.last())
        if last is None or last.decision.batch != batch:
            return NOTHING_REFUSED
        return last.decision.quarantine or NOTHING_REFUSED

    @property
    def _remedy(self) -> str:
        """The advice for an error after which it is unknown whether the batch was decided."""
        if self._options.checkpoint is not None or self._options.version is not None:
            return "start it again, and the batch is written exactly once"
        return (
            "its transactions may be committed once the brokers answer: look at the topic before"
            " you start the job again; with txnAppId and txnVersion it is written exactly once"
        )

    def _job(self, token: RunToken) -> int:
        version = self._options.version
        return token.decided + 1 if version is None else version

    def _check_repetition(self, number: int, what: PlannedBatch) -> None:
        """Raise SinkError unless this batch is the one decided last, or the version of a batch
        write."""
        last = run(self._decisions.last())
        if self._options.checkpoint is None:
            return
        if last is None or number < last.decision.batch:
            raise SinkError(
                f"pipeline {self._options.pipeline}: batch {number} is behind what was written:"
                " the checkpoint is older than the topics; put the newer one back, or give the"
                " pipeline a new name and write again"
            )
        if last.decision.digest != what.digest:
            raise SinkError(
                f"pipeline {self._options.pipeline}: batch {number} was written from other offsets"
                " than the checkpoint now has; put the newer checkpoint back, or give the pipeline"
                " a new name and write again"
            )

    def _check_open(self, writers: Sequence[Writer], number: int) -> None:
        """Raise SinkError unless every transaction is still open, unchanged, and has enough time
        left."""
        names = [writer.transactional_id for writer in writers]
        found = run(transactions.describe(self._client, names))
        now_ms = int(time.time() * 1000)
        for writer in writers:
            there = found.get(writer.transactional_id)
            if there is None or there.writer != writer or there.state != "Ongoing":
                raise SinkError(
                    f"pipeline {self._options.pipeline}: batch {number}: the transaction"
                    f" {writer.transactional_id} is not open any more, so nothing is written:"
                    " another run of this pipeline aborted it, or it took longer than"
                    f" {self._options.transaction_timeout_ms} ms (kafka.transaction.timeout.ms)"
                )
            endless = there.timeout_ms == NO_TIMEOUT_MS
            left_ms = there.started_ms + there.timeout_ms - now_ms
            if not endless and left_ms < min(LEFT_MS_MIN, there.timeout_ms // 2):
                raise SinkError(
                    f"pipeline {self._options.pipeline}: batch {number}: only {left_ms} ms are left"
                    f" of the {there.timeout_ms} ms that its transactions may take; write smaller"
                    " batches, or raise kafka.transaction.timeout.ms and the brokers'"
                    " transaction.max.timeout.ms"
                )

    def _decide(self, driver: Writer, decision: Decision) -> None:
        try:
            run(self._decisions.decide(driver, decision, int(time.time() * 1000)))
        except ApiError as error:
            if error.code in transactions.GONE:
                raise SinkError(
                    f"pipeline {self._options.pipeline}: batch {decision.batch} is not decided:"
                    " a newer run of this pipeline has begun; let one run alone"
                ) from error
            raise

    def _finish(self, decision: Decision) -> None:
        """Commit all transactions of the decision and record that. SinkError if one was aborted."""
        gone = []
        for writer in decision.writers:
            try:
                run(transactions.end(self._client, writer, commit=True))
            except ApiError as error:
                if error.code not in transactions.GONE:
                    raise
                gone.append(f"{writer.transactional_id} ({error.code.name})")
        if gone:
            raise SinkError(
                f"pipeline {self._options.pipeline}: batch {decision.batch} was decided, and"
                f" {len(gone)} of its {len(decision.writers)} transactions were aborted before they"
                f" could be committed: {', '.join(gone)}; its rows are missing, so write the batch"
                " again under a new pipeline name (the brokers'"
                " transaction.two.phase.commit.enable keeps it from happening)"
            )
        run(self._decisions.mark_ended(decision, int(time.time() * 1000)))

    def abort(self, messages: Sequence[SinkMessage], token: RunToken | None) -> None:
        """Abort this run's open transactions; a batch that was decided is finished instead.

        A newer run is left alone: it aborts this one's transactions itself. `token`: the run's, if
        the writer itself was sent to tasks; else the messages hold it.
        """
        token = messages[0].token if token is None and messages else token
        if token is None:
            return
        try:
            if not self._is_newest(token.driver):
                return
            driver, _ = self._take_over()  # From here on no attempt of the old run can be decided.
            # Includes transactions whose tasks were killed before they returned a message.
            self._sweep(driver)
        except (ClientError, ApiError) as error:
            raise sink_error(error, f"pipeline {self._options.pipeline}: {error}") from error

    def _is_newest(self, driver: Writer) -> bool:
        found = run(transactions.describe(self._client, [driver.transactional_id]))
        there = found.get(driver.transactional_id)
        return there is not None and there.writer == driver

    def _abort(self, writers: Iterable[Writer]) -> None:
        for writer in writers:
            try:
                run(transactions.end(self._client, writer, commit=False))
            except (ClientError, ApiError) as error:
                _log.warning(
                    "cannot abort the transaction of %s, it will time out: %s",
                    writer.transactional_id,
                    error,
                )

    def _sweep(self, driver: Writer) -> None:
        """Abort all open transactions of tasks: those that were decided have ended."""
        names = run(transactions.open_ids(self._client, self._options.prefix))
        if names and not self._is_newest(driver):
            return  # They may belong to a newer run.
        for transactional_id in names:
            try:
                run(transactions.take_id(self._client, transactional_id, _DECISION_TIMEOUT_MS))
            except ApiError as error:  # The next run aborts this one.
                _log.warning(
                    "cannot abort the transaction of %s, it will time out: %s",
                    transactional_id,
                    error,
                )
            else:
                _log.info(
                    "aborted the open transaction of %s: it belongs to no batch", transactional_id
                )
