"""The exception that parsers raise; importable without Spark."""


class Unreadable(ValueError):
    """A value the parser cannot read; the message is kept with it as the reason."""
