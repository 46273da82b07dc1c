"""The steps of a replay after its table is built: compare, apply, undo, discard.

    built → diffed → applying → applied → undoing → undone
      └────────┴──────────── discarded ───────────────┘

The intent is stored before the table is changed, the result afterwards. The commit in the table
has an application transaction, so a step that was interrupted is repeated by whichever process
starts next (`resume`), and commits once. Quarantined records are noted in between: those that
become rows before the commit, those whose rows are removed after it.
"""

from __future__ import annotations

import logging
import shutil
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.client.transport.port import ClientError
from headrace.model.errors import ApiError, HeadraceError
from headrace.pipeline.diffs.compare import DiffSettings, compare
from headrace.pipeline.replays.quarantine_notes import NO_NOTES
from headrace.pipeline.replays.replay import OutdatedDiffError, Replay, ReplayError, ReplayState
from headrace.spark.tables.delta_parts.follow import RowsChangedError, follow
from headrace.spark.tables.delta_parts.lease import LEASE_MS, end_lease, take_lease
from headrace.spark.tables.delta_parts.snapshot import Snapshot, snapshot_of
from headrace.spark.tables.delta_parts.swap import FilesMovedError, Swap, swap_files, transaction_of

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.pipeline.diffs.table_diff import TableDiff
    from headrace.pipeline.replays.quarantine_notes import QuarantineNotes
    from headrace.pipeline.replays.replay_store import ReplayStore

_TRIES = 5
"""How often a step follows files that others compact meanwhile."""
_BEFORE_APPLY = (ReplayState.BUILT, ReplayState.DIFFED)
_IN_THE_TABLE = (ReplayState.APPLYING, ReplayState.APPLIED, ReplayState.UNDOING)
"""States in which the table has, or may have, a replay's files."""
_NO_MORE = {
    ReplayState.BUILDING: "was not completed; discard it and replay again",
    ReplayState.UNDONE: "was undone; replay again",
    ReplayState.DISCARDED: "was discarded; replay again",
}
S = ReplayState
_log = logging.getLogger(__name__)


def diff_replay(
    store: ReplayStore, replay: Replay, settings: DiffSettings | None = None
) -> TableDiff:
    """Compare a replay's rows with those that it replaces; nothing is written.

    ReplayError if it has none; DiffError, TableError.
    """
    if replay.state in (S.BUILDING, S.DISCARDED):
        raise ReplayError(f"{replay.id} {_NO_MORE[replay.state]}")
    return compare(
        _replaced(store, replay),
        snapshot_of(store.built(replay)),
        settings or DiffSettings(keys=replay.keys),
    )


def compare_replay(store: ReplayStore, id_: str) -> Replay:
    """Compare a replay that is built, and store the result."""
    with store.locked():
        replay = store.load(id_)
        if replay.state not in _BEFORE_APPLY:
            raise ReplayError(f"{id_} is {replay.state.value}")
        return _compared(store, replay)


def apply_replay(
    store: ReplayStore, id_: str, now_ms: int, notes: QuarantineNotes = NO_NOTES
) -> Replay:
    """Put a replay's files in the place of those that it was compared with; return its record.

    `notes`: of quarantined records that become rows. Nothing happens if it is applied.
    OutdatedDiffError if the table has changed: the new comparison is stored, or the replay must be
    computed again. ReplayError for its state, or for records that are also sent to the live flow;
    TableError. ApiError and ClientError: the brokers are away, and the next start completes it.
    """
    with store.locked():
        replay = store.load(id_)
        if replay.state is S.APPLIED:
            return replay
        if replay.state is S.BUILT:
            replay = _compared(store, replay)
            raise OutdatedDiffError(f"{id_} was not compared yet; apply it again", replay.diff)
        if replay.state not in (S.DIFFED, S.APPLYING):
            raise ReplayError(f"{id_} {_NO_MORE.get(replay.state, f'is {replay.state.value}')}")
        if replay.diff is not None and replay.diff.types:
            names = ", ".join(each.name for each in replay.diff.types)
            raise ReplayError(
                f"{id_} has other columns than {replay.table} ({names}): let the pipeline run "
                "until the table has them, then replay again"
            )
        other = _other_since(store, replay, replay.version)
        if other is not None and replay.state is S.DIFFED:
            raise OutdatedDiffError(
                f"{other.id} is {other.state.value}, which replaced rows of {other.days} since "
                f"{id_} was computed: discard {id_} and replay again"
            )
        return _apply(store, store.save(replace(replay, state=S.APPLYING)), now_ms, notes)


def undo_replay(store: ReplayStore, id_: str, notes: QuarantineNotes = NO_NOTES) -> Replay:
    """Put the files back that a replay replaced; return its record. Nothing happens if it is
    undone.

    Rows of batches since then stay. `notes` as in `apply_replay`. TableError if the files were
    deleted; ReplayError, also if another replay was applied to these days since. ApiError and
    ClientError as above.
    """
    with store.locked():
        replay = store.load(id_)
        if replay.state is S.UNDONE:
            return replay
        if replay.state not in (S.APPLIED, S.UNDOING):
            raise ReplayError(f"{id_} is {replay.state.value}: only an applied replay is undone")
        other = _other_since(store, replay, replay.applied_version or replay.version)
        if other is not None and replay.state is S.APPLIED:
            raise ReplayError(
                f"{id_} cannot be undone: {other.id}, of {other.days}, is {other.state.value} "
                f"since then; undo {other.id} first"
            )
        return _undo(store, store.save(replace(replay, state=S.UNDOING)), notes)


def discard_replay(store: ReplayStore, id_: str) -> Replay:
    """Delete a replay's table; return its record. ReplayError if it is applied."""
    with store.locked():
        replay = store.load(id_)
        if replay.state in (S.APPLYING, S.APPLIED, S.UNDOING):
            raise ReplayError(f"{id_} is {replay.state.value}: undo it first")
        return _discard(store, store.save(replace(replay, state=S.DISCARDED)))


def resume(store: ReplayStore, now_ms: int, notes: QuarantineNotes = NO_NOTES) -> list[Replay]:
    """Complete the steps that were interrupted; return the replays that had one.

    If a step cannot be completed, the replay returns to the state before, and the log names the
    reason. If the brokers that have the notes are away, it is completed by the next start.
    """
    found = []
    with store.locked():
        for replay in store.all():
            try:
                if replay.state is S.APPLYING:
                    _apply(store, replay, now_ms, notes)
                elif replay.state is S.UNDOING:
                    _undo(store, replay, notes)
                elif replay.state is S.DISCARDED and store.built(replay).exists():
                    _discard(store, replay)
                else:
                    continue
            except HeadraceError as error:
                _log.warning("replay %s: cannot complete its step: %s", replay.id, error)
            found.append(store.load(replay.id))
    return found


def _other_since(store: ReplayStore, replay: Replay, version: int) -> Replay | None:
    """Return another replay that was applied to the same days after a version, or undone; None
    without.

    Files cannot tell it of a day without rows: new files would be put next to those of the other.
    """
    for other in store.all():
        if other.id == replay.id or other.table != replay.table or not _overlap(other, replay):
            continue
        if other.was_applied_at(version) != (other.state in _IN_THE_TABLE):
            return other
    return None


def _overlap(first: Replay, second: Replay) -> bool:
    if first.range is None or second.range is None:
        return True
    return first.range.overlaps(second.range)


def _replaced(store: ReplayStore, replay: Replay) -> Snapshot:
    """Return the files that a replay replaces."""
    snapshot = snapshot_of(store.table(replay.table), replay.version)
    return replace(
        snapshot, files=tuple(file for file in snapshot.files if file.path in replay.removed)
    )


def _compared(store: ReplayStore, replay: Replay) -> Replay:
    diff = diff_replay(store, replay)
    return store.save(replace(replay, state=S.DIFFED, diff=diff))


def _apply(store: ReplayStore, replay: Replay, now_ms: int, notes: QuarantineNotes) -> Replay:
    location = store.table(replay.table)
    try:
        if not _is_committed(location, replay, replay.number):
            notes.cover(replay)
        replay, version = _swapped(store, replay)
    except (ApiError, ClientError):
        raise
    except HeadraceError:
        # The commit may have succeeded before the error: then the next start completes it.
        if not _is_committed(location, replay, replay.number):
            notes.take_back(replay)
            store.save(replace(store.load(replay.id), state=S.DIFFED))
        raise
    notes.release(replay)
    if replay.range is None:
        end_lease(location, replay.id)
    else:
        take_lease(location, replay.id, replay.range, now_ms + LEASE_MS)
    return store.save(replace(replay, state=S.APPLIED, applied_version=version, applied_ms=now_ms))


def _is_committed(location: Path, replay: Replay, number: int) -> bool:
    return transaction_of(location, replay.application) >= number


def _swapped(store: ReplayStore, replay: Replay) -> tuple[Replay, int]:
    """Commit a replay's files; return its record, which follows compactions, and the version."""
    location = store.table(replay.table)
    for _ in range(_TRIES):
        try:
            return replay, swap_files(location, _swap_of(store, replay))
        except FilesMovedError as error:
            replay = _compared_again(store, replay, error)
    raise OutdatedDiffError(f"{location}: its files are compacted all the time; apply later")


def _swap_of(store: ReplayStore, replay: Replay) -> Swap:
    built = store.built(replay)
    return Swap(
        application=replay.application,
        number=replay.number,
        since=replay.version,
        removed=replay.removed,
        added=snapshot_of(built).files,
        source=built,
    )


def _compared_again(store: ReplayStore, replay: Replay, error: FilesMovedError) -> Replay:
    """Compare a replay with the table after a compaction; OutdatedDiffError if rows differ."""
    location = store.table(replay.table)
    now = snapshot_of(location).version
    before = replay.diff
    try:
        removed = follow(location, replay.removed, replay.version, now)
    except RowsChangedError as changed:
        raise OutdatedDiffError(
            f"{error}: {changed}. Discard {replay.id} and replay again"
        ) from changed
    replay = replace(replay, removed=removed, version=now)
    replay = store.save(replace(replay, diff=diff_replay(store, replay)))
    if replay.diff != before:
        raise OutdatedDiffError(
            f"{location} has changed since {replay.id} was compared; apply it again if the new "
            "comparison is as expected",
            replay.diff,
        )
    return replay


def _undo(store: ReplayStore, replay: Replay, notes: QuarantineNotes) -> Replay:
    location = store.table(replay.table)
    try:
        if not _is_committed(location, replay, replay.number + 1):
            notes.cover(replay)
        version = _swapped_back(store, replay)
    except (ApiError, ClientError):
        raise
    except HeadraceError as error:
        if not _is_committed(location, replay, replay.number + 1):
            notes.take_back(replay)
            store.save(replace(replay, state=S.APPLIED))
        if isinstance(error, RowsChangedError):
            raise ReplayError(f"{replay.id} cannot be undone: {error}") from error
        raise
    notes.release(replay)
    end_lease(location, replay.id)
    return store.save(replace(replay, state=S.UNDONE, undone_version=version))


def _swapped_back(store: ReplayStore, replay: Replay) -> int:
    """Commit the replaced files in place of a replay's; return the version."""
    location = store.table(replay.table)
    since = replay.applied_version if replay.applied_version is not None else replay.version
    paths = frozenset(file.path for file in snapshot_of(store.built(replay)).files)
    old = _replaced(store, replay).files
    for _ in range(_TRIES):
        now = snapshot_of(location)
        if _is_committed(location, replay, replay.number + 1):
            removed = frozenset[str]()
        elif paths <= {file.path for file in now.files}:
            removed = paths  # Also if another replay has replaced them, and was undone.
        else:
            removed = follow(location, paths, since, now.version)
        with suppress(FilesMovedError):
            swap = Swap(replay.application, replay.number + 1, since, removed, old, location)
            return swap_files(location, swap)
    raise ReplayError(f"{location}: its files are compacted all the time; undo later")


def _discard(store: ReplayStore, replay: Replay) -> Replay:
    """Delete the replay's files, and links to them that no version of the table has."""
    location, built = store.table(replay.table), store.built(replay)
    with suppress(HeadraceError):  # It may not have been built.
        if transaction_of(location, replay.application) < replay.number:
            for file in snapshot_of(built).files:
                (location / file.path).unlink(missing_ok=True)
    shutil.rmtree(built, ignore_errors=True)
    end_lease(location, replay.id)
    return replay
