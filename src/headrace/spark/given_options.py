"""Options as the user wrote them, looked up without regard to case and checked one at a time."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from headrace.spark.errors import OptionError


class GivenOptions:
    """Looks values up by name; OptionError names the option whose value cannot be used."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._values = {name.lower(): value for name, value in options.items()}
        self._spelled = {name.lower(): name for name in options}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._values

    def text(self, name: str) -> str | None:
        """Return the value as it was written."""
        return self._values.get(name.lower())

    def names(self) -> list[tuple[str, str]]:
        """Return the names, lower-case and as written."""
        return list(self._spelled.items())

    def words(self, name: str) -> tuple[str, ...]:
        """Return what stands between the commas."""
        return tuple(filter(None, (word.strip() for word in (self.text(name) or "").split(","))))

    def number(self, name: str, least: int = 1, most: int | None = None) -> int | None:
        """Return a whole number of at least `least` and at most `most`."""
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
        """Return the same, or the default where nothing was given."""
        number = self.number(name, least, most)
        return default if number is None else number

    def flag(self, name: str, default: bool) -> bool:
        """Return true or false."""
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise OptionError(f"{name}: {text!r} is neither true nor false")
        return text.lower() == "true"

    def choice(self, name: str, choices: Mapping[str, Any], default: Any) -> Any:  # noqa: ANN401
        """Return what `choices` has for the value, of which the case does not matter."""
        text = self.text(name)
        if text is None:
            return default
        chosen = text.strip().lower()
        if chosen not in choices:
            raise OptionError(f"{name}: {text!r} is none of {', '.join(choices)}")
        return choices[chosen]


def perhaps(name: str, names: Iterable[str]) -> str:
    """Return "; did you mean …?" where one of the names is nearly this one, else nothing."""
    spelled = {known.lower(): known for known in names}
    close = difflib.get_close_matches(name.lower(), spelled, 1)
    return f"; did you mean {spelled[close[0]]}?" if close else ""
