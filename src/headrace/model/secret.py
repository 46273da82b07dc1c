"""`Secret`: a password that logs and errors do not show."""

from typing import final


@final
class Secret:
    """A text whose repr and str are `***`, so no log, error or dump shows it by accident.

    Compare with `hmac.compare_digest` on the result of `reveal`.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the secret text, for authentication code."""
        return self._text

    def __repr__(self) -> str:
        return "***"

    __str__ = __repr__

    def __reduce__(self) -> tuple[object, ...]:
        """Raise TypeError instead of being pickled or copied."""
        raise TypeError("a Secret cannot be pickled or copied")
