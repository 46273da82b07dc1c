"""Topic bindings as a trie over words: who is bound by a pattern that matches a routing key.

Words are what stands between dots. `*` stands for exactly one word, `#` for any number of them,
none included; an empty word is a word, and the empty key has none at all (RabbitMQ's rules).
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
        """Whether `#` leads here: then it takes each further word, too."""
        self.bound: dict[T, int] = {}
        """What is bound by a pattern that ends here, and how many times."""

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
    """What is bound to a topic exchange, by binding keys.

    All patterns are followed at once, word by word, and each place of the trie at most once a word:
    a match costs no more than words times places, however many `#` the patterns have.
    """

    def __init__(self) -> None:
        self._root: _Node[T] = _Node(repeats=False)

    def add(self, pattern: str, bound: T) -> None:
        """Bind; the same once more is counted."""
        node = self._root
        for word in _pattern_words(pattern):
            node = node.child(word) or node.grow(word)
        node.bound[bound] = node.bound.get(bound, 0) + 1

    def remove(self, pattern: str, bound: T) -> None:
        """Take back one `add` of the same; KeyError where there was none."""
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
        """Return all that is bound by a pattern that matches the key."""
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
    """Add the place and where a `#` that stands for nothing leads from it."""
    into[node] = None
    if node.any_words is not None:
        into[node.any_words] = None
    return into


def _pattern_words(pattern: str) -> list[str]:
    """Return a pattern's words; of `#` in a row one stays, which means the same."""
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
