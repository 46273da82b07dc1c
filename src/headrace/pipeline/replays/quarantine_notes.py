"""The port of a replay's steps to the quarantine: notes on records whose rows they move."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from headrace.pipeline.replays.replay import Replay


class QuarantineNotes(Protocol):
    """Notes that quarantined records are rows of a table, made around one step of a replay.

    The step is told by the replay's state: applying, or undoing. Repeats change nothing, so a step
    that was interrupted makes its notes again. All methods raise ApiError and ClientError.
    """

    def cover(self, replay: Replay) -> None:
        """Note waiting records that become rows, so that nothing sends them; before the commit.

        OutdatedDiffError, or ReplayError of an undo, if the live flow has written such a record, or
        will write it.
        """

    def release(self, replay: Replay) -> None:
        """Let records wait again whose rows the commit has removed."""

    def take_back(self, replay: Replay) -> None:
        """Undo `cover`: there is no commit."""


class NoQuarantineNotes:
    """Notes of a replay whose rows no quarantined record can be found in."""

    def cover(self, replay: Replay) -> None:
        """Do nothing."""

    def release(self, replay: Replay) -> None:
        """Do nothing."""

    def take_back(self, replay: Replay) -> None:
        """Do nothing."""


NO_NOTES = NoQuarantineNotes()
