"""A verb's options in `headrace mqadmin`, parsed and shown as by RocketMQ's mqadmin."""

import textwrap
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from headrace.terminal.failure import UsageError

_WIDTH = 110
_USAGE = "usage: "
_PROGRAM = "mqadmin"


class Option(NamedTuple):
    """An option with its letter and its name, as `-t` and `--topic`."""

    letter: str
    name: str
    help: str
    required: bool = False
    valued: bool = True
    """Whether a value follows."""

    @property
    def shown(self) -> str:
        """The option as the usage line has it."""
        return f"-{self.letter}{' <arg>' if self.valued else ''}"


HELP = Option("h", "help", "Show the options", valued=False)
NAME_SERVER = Option("n", "namesrvAddr", "HOST:PORT of the broker's listener for RocketMQ")
BROKER = Option("b", "brokerAddr", "The broker, as HOST:PORT")
CLUSTER = Option("c", "clusterName", "The brokers of a cluster")
TOPIC = Option("t", "topic", "The topic", required=True)


class WrongOption(UsageError):
    """An option that the verb does not have, or that lacks its value."""


class Options(NamedTuple):
    """The options of a verb, beside HELP and NAME_SERVER."""

    own: Sequence[Option] = ()
    either: Sequence[Option] = ()
    """Options of which one must be given, and only one."""
    unavailable: Sequence[str] = ()
    """Options of RocketMQ's mqadmin that are refused, as `-u`."""

    def parse(self, words: Sequence[str]) -> dict[str, str]:
        """Return the values by the options' letters, "" for one without a value.

        With -h required options may be missing. Raises WrongOption.
        """
        found: dict[str, str] = {}
        remaining = iter(words)
        for word in remaining:
            option, value = self._option(word)
            if value is None and option.valued:
                value = next(remaining, None)
                if value is None or _is_option(value):
                    raise WrongOption(f"Missing argument for option: {option.letter}")
            if option.letter in found:
                raise WrongOption(f"option -{option.letter} is given twice")
            found[option.letter] = value or ""
        if HELP.letter not in found:
            self._check(found)
        return found

    def _option(self, word: str) -> tuple[Option, str | None]:
        """Return the option of a word, and the value in the same word or None."""
        if not _is_option(word):
            raise WrongOption(f"{word} is the value of no option")
        flag, equals, value = word.partition("=")
        if flag in self.unavailable or word[:2] in self.unavailable:
            raise WrongOption(f"option {flag} of RocketMQ's mqadmin is not available")
        for option in self._all():
            if flag in (f"-{option.letter}", f"-{option.name}", f"--{option.name}"):
                if equals and not option.valued:
                    break
                return option, value if equals else None
        for option in self._all():
            if option.valued and word[1] == option.letter:
                return option, word[2:]
        raise WrongOption(f"Unrecognized option: {word}")

    def _all(self) -> Iterator[Option]:
        """Yield all options by their letters, those of every verb included."""
        yield from sorted(
            (*self.own, *self.either, HELP, NAME_SERVER), key=lambda each: each.letter
        )

    def _check(self, found: dict[str, str]) -> None:
        """Raise WrongOption if required options are missing, or exclude each other."""
        missing = [each.letter for each in self.own if each.required and each.letter not in found]
        if missing:
            raise WrongOption(f"Missing required option: {', '.join(missing)}")
        given = [each.letter for each in self.either if each.letter in found]
        letters = " and ".join(f"-{each.letter}" for each in self.either)
        if self.either and len(given) != 1:
            problem = "exclude each other" if given else "are missing: one of them is required"
            raise WrongOption(f"options {letters} {problem}")

    def help_lines(self, verb: str) -> list[str]:
        """Return the lines that show the options."""
        options = list(self._all())
        flags = [f" -{each.letter},--{each.name}{' <arg>' * each.valued}" for each in options]
        width = max(map(len, flags)) + 3
        lines = _wrapped(f"{_USAGE}{' '.join(self._usage(verb))}", len(_USAGE))
        for flag, option in zip(flags, options, strict=True):
            lines += _wrapped(f"{flag:<{width}}{option.help}", width)
        return lines

    def _usage(self, verb: str) -> Iterator[str]:
        yield f"{_PROGRAM} {verb}"
        for option in self._all():
            if option not in self.either:
                yield option.shown if option.required else f"[{option.shown}]"
            elif option is self.either[0]:
                yield " | ".join(each.shown for each in self.either)


def _is_option(word: str) -> bool:
    return len(word) > 1 and word[0] == "-" and not word[1:].isdecimal()


def _wrapped(line: str, indent: int) -> list[str]:
    return textwrap.wrap(
        line, _WIDTH, subsequent_indent=" " * indent, break_on_hyphens=False, break_long_words=False
    )
