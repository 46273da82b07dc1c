"""Exit codes of the errors of replays."""

from collections.abc import Iterator
from contextlib import contextmanager

from headrace.terminal.failure import EXIT_NOT_FOUND, EXIT_USAGE, CommandError


@contextmanager
def replay_exit_codes() -> Iterator[None]:
    """Raise errors of replays as CommandError with their exit codes."""
    from headrace.pipeline.declarations import DeclarationError
    from headrace.pipeline.diffs.table_diff import DiffError
    from headrace.pipeline.exit_codes import DATA_LOST, DECISION_NEEDED
    from headrace.pipeline.replays import replay
    from headrace.pipeline.replays.topic_ranges import RecordsLostError

    codes: dict[type[Exception], int] = {
        replay.UnknownReplayError: EXIT_NOT_FOUND,
        replay.UnknownTableFlowError: EXIT_NOT_FOUND,
        replay.ReplayRangeError: EXIT_USAGE,
        replay.OutdatedDiffError: DECISION_NEEDED,
        RecordsLostError: DATA_LOST,
        DeclarationError: EXIT_USAGE,
        DiffError: EXIT_USAGE,
    }
    try:
        yield
    except replay.ReplayFailedError as error:
        raise CommandError(str(error), error.code) from None
    except tuple(codes) as error:
        raise CommandError(str(error), codes[type(error)]) from None
