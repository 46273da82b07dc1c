"""Proofs that an old public name still works: for each kind of line that can have an alias."""

import importlib
import logging
from collections.abc import Callable
from typing import Any

from headrace.cli.command_tree import app
from headrace.config.broker import Source, load
from headrace.config.definitions import BROKER
from headrace.config.topic_settings import parse_topic_config
from headrace.config.value_types import text_of
from headrace.model.errors import ConfigError
from headrace.observe import logs
from tests.support.public_surface import canonical

Words = list[str]
"""A line without its first word."""


def works(old: str, new: str) -> bool:
    """Whether what the old line names is still accepted, and is what the new one names.

    KeyError: lines of this kind have no alias; the old name stays beside the new one instead.
    """
    kind, *words = old.split()
    other, *others = new.split()
    return kind == other and PROOFS[kind](words, others)


def _logger(old: Words, new: Words) -> bool:
    """Whether a level given to the old logger's name becomes the new one's."""
    logger = logging.getLogger(new[0])
    try:
        logs.set_level(old[0], "TRACE")
        return logger.getEffectiveLevel() == logs.LOGGER_LEVELS["TRACE"]
    finally:
        logs.set_level(old[0], None)


def _command(old: Words, new: Words) -> bool:
    """Whether the old words call the new verb."""
    try:
        return canonical(" ".join(old)) == canonical(" ".join(new))
    except KeyError:
        return False


def _flag(old: Words, new: Words) -> bool:
    """Whether the old words are a verb with the old flag, and it is the new one's argument."""
    found: Any = app
    try:
        for word in _verb(old)[1:]:
            found = found[word]
    except KeyError:
        return False
    flags = {old[len(_verb(old))], new[len(_verb(new))]}
    return any(flags <= set(each.names) for each in found.assemble_argument_collection())


def _verb(words: Words) -> Words:
    """The words before the flag or the argument's name, which is in capitals."""
    at = next(at for at, word in enumerate(words) if word.startswith("-") or word.isupper())
    return words[:at]


def _python(old: Words, new: Words) -> bool:
    """Whether the old name is the new name's object."""
    try:
        return _object(old[0]) is _object(new[0])
    except (AttributeError, ImportError):
        return False


def _object(signature: str) -> object:
    package, room, *names = signature.partition("(")[0].split(".")
    found: object = importlib.import_module(f"{package}.{room}")
    for name in names:
        found = getattr(found, name)
    return found


def _config(old: Words, new: Words) -> bool:
    """Whether the old key's value becomes the new key's."""
    if old[0] == "topic":
        try:
            parse_topic_config(old[1], new[3].partition("=")[2].strip('"'))
        except ConfigError:
            return False
        return True
    try:
        config, _ = load(f"{old[1]}={text_of(BROKER[new[1]].default) or ''}")
    except ConfigError:
        return False
    return config.sources[new[1]] is Source.FILE


PROOFS: dict[str, Callable[[Words, Words], bool]] = {
    "logger": _logger,
    "command": _command,
    "flag": _flag,
    "python": _python,
    "config": _config,
}
