"""Filters of messages by their tag: `*`, or tags separated by `||`.

RocketMQ's broker compares hashes of tags, and clients compare the tags again. Here the tags
themselves are compared; clients that compare again find the same.
"""

TAG_TYPE = "TAG"
ALL = "*"
_SEPARATOR = "||"


def tags_of(expression: str) -> frozenset[str]:
    """Return the tags in an expression; `*` is one of them."""
    return frozenset(filter(None, map(str.strip, expression.split(_SEPARATOR))))


class TagFilter:
    """The tags that a consumer wants."""

    __slots__ = ("_tags",)

    def __init__(self, expression: str) -> None:
        """`expression` is empty or `*` for all messages, also those without a tag."""
        tags = tags_of(expression)
        self._tags: frozenset[bytes] | None = None
        if tags and ALL not in tags:
            self._tags = frozenset(tag.encode("utf-8", "replace") for tag in tags)

    @property
    def wants_all(self) -> bool:
        """Whether every message is wanted."""
        return self._tags is None

    def wants(self, tag: bytes | None) -> bool:
        """Return whether a message with this tag is wanted; None: it has none."""
        return self._tags is None or tag in self._tags
