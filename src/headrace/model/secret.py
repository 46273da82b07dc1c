"""A value that must be shown to nobody: passwords on their way."""

from typing import final


@final
class Secret:
    """A text whose repr and str are `***`, so that no log, error or dump shows it by accident.

    Compared by nobody: `hmac.compare_digest` on what `reveal` returns.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text, for whoever proves or checks it."""
        return self._text

    def __repr__(self) -> str:
        return "***"

    __str__ = __repr__

    def __reduce__(self) -> tuple[object, ...]:
        """Refuse to be pickled or copied into what is kept elsewhere. TypeError."""
        raise TypeError("a secret is not written down")
