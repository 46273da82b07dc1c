"""Topic bindings as a trie over words: the bindings whose pattern matches a routing key.

Words are separated by dots. `*` matches exactly one word, `#` any number of words, also none. An
empty word is a word; the empty key has no words (RabbitMQ's rules).
"""

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

T = TypeVar("T")

ONE_WORD = "*"
ANY_WORDS = "#"


class _Node(Generic[T]):
    __slots__ = ("any_words", "bound", "one_word", "repeats", "words")

    def __init__(self, *, repeats: bool) -> None:
        self.words: dict[str, _Node[T]] = {}
        self.one_word: _Node[T] | None = None
        self.any_words: _Node[T] | None = None
        self.repeats = repeats
        """Whether the node was reached by `#`: further words then lead to the node itself."""
        self.bound: dict[T, int] = {}
        """Destinations whose pattern ends here, with the number of their bindings."""

    def child(self, word: str) -> "_Node[T] | None":
        if word == ANY_WORDS:
            return self.any_words
        return self.one_word if word == ONE_WORD else self.words.get(word)

    def grow(self, word: str) -> "_Node[T]":
        node: _Node[T] = _Node(repeats=word == ANY_WORDS)
        if word == ANY_WORDS:
            self.any_words = node
        elif word == ONE_WORD:
            self.one_word = node
        else:
            self.words[word] = node
        return node

    def cut(self, word: str) -> None:
        if word == ANY_WORDS:
            self.any_words = None
        elif word == ONE_WORD:
            self.one_word = None
        else:
            del self.words[word]

    @property
    def empty(self) -> bool:
        return not (self.bound or self.words or self.one_word or self.any_words)


class TopicTrie(Generic[T]):
    """The bindings of a topic exchange by their patterns.

    A match follows all patterns at once, word by word, and visits each node at most once for each
    word: its cost is at most words times nodes, however many `#` the patterns have.
    """

    def __init__(self) -> None:
        self._root: _Node[T] = _Node(repeats=False)

    def add(self, pattern: str, bound: T) -> None:
        """Add a binding by a pattern; equal ones are counted."""
        node = self._root
        for word in _pattern_words(pattern):
            node = node.child(word) or node.grow(word)
        node.bound[bound] = node.bound.get(bound, 0) + 1

    def remove(self, pattern: str, bound: T) -> None:
        """Remove one binding by a pattern; raise KeyError if none exists."""
        path: list[tuple[_Node[T], str]] = []
        node = self._root
        for word in _pattern_words(pattern):
            path.append((node, word))
            child = node.child(word)
            if child is None:
                raise KeyError(pattern)
            node = child
        if node.bound[bound] == 1:
            del node.bound[bound]
        else:
            node.bound[bound] -= 1
        for parent, word in reversed(path):
            if not node.empty:
                break
            parent.cut(word)
            node = parent

    def match(self, routing_key: str) -> set[T]:
        """Return all destinations bound by a pattern that matches the key."""
        reached: Iterable[_Node[T]] = _with_no_words(self._root, {})
        for word in routing_key.split(".") if routing_key else ():
            following: dict[_Node[T], None] = {}
            for node in reached:
                if node.repeats:
                    following[node] = None
                if (child := node.words.get(word)) is not None:
                    _with_no_words(child, following)
                if node.one_word is not None:
                    _with_no_words(node.one_word, following)
            if not following:
                return set()
            reached = following
        found: set[T] = set()
        for node in reached:
            found.update(node.bound)
        return found


def _with_no_words(node: _Node[T], into: dict[_Node[T], None]) -> dict[_Node[T], None]:
    """Add to `into` a node, and the node after its `#`, which may match no word; return `into`."""
    into[node] = None
    if node.any_words is not None:
        into[node.any_words] = None
    return into


def _pattern_words(pattern: str) -> list[str]:
    """Return the words of a pattern; consecutive `#` become one, which is equivalent."""
    if not pattern:
        return []
    words = pattern.split(".")
    if pattern.count(ANY_WORDS) > 1:
        words = [
            word
            for place, word in enumerate(words)
            if word != ANY_WORDS or place == 0 or words[place - 1] != ANY_WORDS
        ]
    return words
