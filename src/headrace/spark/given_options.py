"""The options of a read or write, looked up case-insensitively and validated one by one."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from headrace.spark.errors import OptionError


class GivenOptions:
    """The options as the user wrote them; a lookup of an invalid value raises OptionError."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._values = {name.lower(): value for name, value in options.items()}
        self._spelled = {name.lower(): name for name in options}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._values

    def text(self, name: str) -> str | None:
        """Return the option's value as written; None if it is not set."""
        return self._values.get(name.lower())

    def names(self) -> list[tuple[str, str]]:
        """Return (name in lower case, name as written) of each set option."""
        return list(self._spelled.items())

    def words(self, name: str) -> tuple[str, ...]:
        """Return the parts of a comma-separated option, without blanks and empty parts."""
        return tuple(filter(None, (word.strip() for word in (self.text(name) or "").split(","))))

    def number(self, name: str, least: int = 1, most: int | None = None) -> int | None:
        """Return the option as an integer of at least `least` and at most `most`; None if not
        set."""
        text = self.text(name)
        if text is None:
            return None
        try:
            number = int(text)
        except ValueError:
            raise OptionError(f"{name}: {text!r} is not a whole number") from None
        if number < least:
            raise OptionError(f"{name}: {number} is less than {least}")
        if most is not None and number > most:
            raise OptionError(f"{name}: {number} is more than {most}")
        return number

    def number_or(self, name: str, default: int, least: int = 1, most: int | None = None) -> int:
        """Return the option as an integer as `number` does, or `default` if it is not set."""
        number = self.number(name, least, most)
        return default if number is None else number

    def flag(self, name: str, default: bool) -> bool:
        """Return the option as a boolean, or `default` if it is not set."""
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise OptionError(f"{name}: {text!r} is neither true nor false")
        return text.lower() == "true"

    def choice(self, name: str, choices: Mapping[str, Any], default: Any) -> Any:  # noqa: ANN401
        """Return the entry of `choices` for the option's value, case-insensitively; else
        `default`."""
        text = self.text(name)
        if text is None:
            return default
        chosen = text.strip().lower()
        if chosen not in choices:
            raise OptionError(f"{name}: {text!r} is not one of {', '.join(choices)}")
        return choices[chosen]


def perhaps(name: str, names: Iterable[str]) -> str:
    """Return "; did you mean …?" if one of `names` resembles `name`, else an empty string."""
    spelled = {known.lower(): known for known in names}
    close = difflib.get_close_matches(name.lower(), spelled, 1)
    return f"; did you mean {spelled[close[0]]}?" if close else ""
