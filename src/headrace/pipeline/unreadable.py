"""What a parser raises; apart from the rest so that a parser needs no Spark."""


class Unreadable(ValueError):
    """A value that is not what the topic promises; the message is the reason kept with it."""
