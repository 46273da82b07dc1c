"""Errors as one line with the remedy, and the exit codes of commands."""

import errno
import os
from pathlib import Path

from headrace.model.errors import (
    BEING_DELETED,
    STORE_UNANSWERED,
    ApiError,
    ConfigError,
    CorruptLogError,
    ErrorCode,
    HeadraceError,
)
from headrace.model.protocols import other_topic_names

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_UNREACHABLE = 3
EXIT_NOT_FOUND = 4
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
"""128 + SIGPIPE, as if the signal had ended the process when the reader closed the pipe."""

_KINDS = {
    EXIT_USAGE: "USAGE",
    EXIT_UNREACHABLE: "UNREACHABLE",
    EXIT_NOT_FOUND: "NOT_FOUND",
    10: "DECISION_NEEDED",
    11: "CHECK_FAILED",
    12: "DATA_LOST",
    13: "HELD",
    14: "SCHEMA_MOVED",
}
"""Codes in JSON of errors that are not a broker's response; FAILED for all others.

Those from 10 on are of `headrace pipeline` (`pipeline/exit_codes.py`).
"""

_NOT_FOUND = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.RESOURCE_NOT_FOUND,
    }
)

_BY_SOCKET = (
    "on the broker's machine its own user and root need no password: -b unix:DATA,"
    " where DATA is its log directory"
)
"""Advice for a client that is not authorized or cannot authenticate."""

_ADVICE = {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: _BY_SOCKET,
    ErrorCode.TOPIC_ALREADY_EXISTS: "pass --if-not-exists to ignore this",
    ErrorCode.NON_EMPTY_GROUP: "the group has members; stop them first",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "the group's members are clients of another protocol or"
    " use another assignment; stop them first",
    ErrorCode.MESSAGE_TOO_LARGE: "raise the topic's max.message.bytes or send a smaller record",
    ErrorCode.NOT_ENOUGH_REPLICAS: "fewer replicas are in sync than min.insync.replicas requires",
    ErrorCode.LEADER_NOT_AVAILABLE: "headrace cluster health says which broker is missing or which"
    " log directory has failed",
    ErrorCode.KAFKA_STORAGE_ERROR: "the broker's disk is full or has failed, or the records are"
    " damaged: see headrace"
    " cluster health, headrace disk and the broker's log. To continue after damaged"
    " records: headrace consume -p PARTITION -o OFFSET",
    ErrorCode.INVALID_REPLICATION_FACTOR: "the cluster has fewer brokers",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "see: headrace topic list",
    ErrorCode.GROUP_ID_NOT_FOUND: "see: headrace group list",
}
"""By error code: the advice that follows a broker's text."""


class CommandError(HeadraceError):
    """A command has failed; the text is the whole line for the user."""

    def __init__(self, text: str, code: int = EXIT_FAILED) -> None:
        super().__init__(text)
        self.code = code


class UsageError(CommandError):
    """Arguments or flags that are invalid or contradict each other."""

    def __init__(self, text: str) -> None:
        super().__init__(text, EXIT_USAGE)


def check_installed(*modules: str, packages: tuple[str, ...] = (), code: int = EXIT_FAILED) -> None:
    """Raise CommandError if a module that a command needs is missing; nothing is imported.

    `packages`: the packages to install; empty: the one that is missing. `code`: the exit code.
    """
    import importlib.util  # not where a command needs no other packages

    from headrace.config.installing import install_command

    for needed in modules:
        if importlib.util.find_spec(needed) is None:
            text = f"{needed} is missing: {install_command(*(packages or (needed,)))}"
            raise CommandError(text, code)


def check_readable(path: Path) -> None:
    """Raise UsageError if a named file does not exist, is a directory or may not be read.

    It is not opened: the writer of a pipe would see its reader close.
    """
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        path.stat()
        if not os.access(path, os.R_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise unusable(path, error) from None


def unusable(path: Path, error: OSError) -> UsageError:
    """Return the error for a named file or directory that cannot be used."""
    return UsageError(f"{error.filename or path}: {(error.strerror or str(error)).lower()}")


_NOUNS = {"share": "share group", "txn": "transactional id"}
"""By command: the words for the objects it lists."""


def not_found(kind: str, name: str, known: "list[str]") -> CommandError:
    """Return the error for an unknown topic, group or other object, with similar names.

    `kind`: the command whose `list` shows the objects.
    """
    from difflib import get_close_matches  # not where no name was wrong

    noun = _NOUNS.get(kind, kind)
    if kind == "topic" and (elsewhere := topic_elsewhere(name)):
        return CommandError(f"there is no {noun} {name}; {elsewhere}", EXIT_NOT_FOUND)
    near = get_close_matches(name, known, n=3, cutoff=0.6)
    if near:
        advice = f"did you mean {' or '.join(near)}?"
    elif known:
        advice = f"see: headrace {kind} list"
    else:
        advice = f"there is no {noun} at all"
    return CommandError(f"there is no {noun} {name}; {advice}", EXIT_NOT_FOUND)


def topic_elsewhere(name: str) -> str:
    """Return what Kafka's name of another protocol's topic is, empty if there is no other name."""
    names = other_topic_names(name).items()
    return "; ".join(
        f"the Kafka topic of {protocol}'s {name} is {held}" for protocol, held in names
    )


def line_of(error: HeadraceError) -> tuple[str, int]:
    """Return the line and the exit code of an error that ends a command."""
    if isinstance(error, CommandError):
        return str(error), error.code
    if isinstance(error, ApiError):
        advice = _advice(error)
        return (
            refusal_of(error) + (f"; {advice}" if advice else ""),
            EXIT_NOT_FOUND if error.code in _NOT_FOUND else EXIT_FAILED,
        )
    if isinstance(error, ConfigError):
        return str(error), EXIT_USAGE
    if isinstance(error, CorruptLogError):
        return f"damaged data: {error}", EXIT_FAILED
    return _client_line(error)


def refusal_of(error: ApiError) -> str:
    """Return a broker's refusal with Kafka's error name, without advice.

    For commands that the advice would mislead: it is meant for the most common command.
    """
    text = (error.message or error.code.name.lower().replace("_", " ")).rstrip(".")
    return f"{text} [{error.code.name}]"


def _advice(error: ApiError) -> str | None:
    if error.message and error.message.startswith(STORE_UNANSWERED):
        return "check that ZooKeeper runs and that the broker can connect to it"
    if error.message and BEING_DELETED in error.message:
        return (
            "the deletion completes once every broker with a replica is back: headrace cluster"
            " health"
        )
    return _ADVICE.get(error.code)


def error_json(error: HeadraceError) -> dict[str, str | int]:
    """Return an error as it appears in the JSON of every command.

    `code` is Kafka's error name if a broker refused, else a kind of failure.
    """
    message, exit_code = line_of(error)
    if isinstance(error, ApiError):
        code = error.code.name
        message = message.replace(f" [{code}]", "", 1)
    else:
        code = _KINDS.get(exit_code, "FAILED")
    return {"code": code, "message": message, "exit_code": exit_code}


def _client_line(error: HeadraceError) -> tuple[str, int]:
    from headrace.client.transport.port import (
        LOCAL_PREFIX,
        CannotConnect,
        ClientError,
        ConnectionLost,
    )

    if isinstance(error, CannotConnect):
        advice = "is the broker running? start one with: headrace serve"
        return f"{error}; {advice}, or pass another address with -b host:port", EXIT_UNREACHABLE
    if isinstance(error, ClientError):
        text = str(error)
        # A listener that requires authentication closes an unauthenticated connection silently.
        ended = isinstance(error, ConnectionLost) and "closed by the broker" in text
        refused = type(error).__name__ == "AuthenticationFailed"
        if refused or (ended and not text.startswith(LOCAL_PREFIX)):
            who = (
                ""
                if refused
                else "does the listener require TLS or authentication (--command-config FILE)? "
            )
            text = f"{text}; {who}{_BY_SOCKET[0].upper() if who else _BY_SOCKET[0]}{_BY_SOCKET[1:]}"
        return text, EXIT_UNREACHABLE
    return str(error) or type(error).__name__, EXIT_FAILED
