"""Topic patterns in the trie: which keys they match, what is left when they go, what they cost."""

from time import process_time

import pytest

from headrace.queues.model.topic_trie import TopicTrie


def matched(key: str, *patterns: str) -> set[str]:
    trie: TopicTrie[str] = TopicTrie()
    for pattern in patterns:
        trie.add(pattern, pattern)
    return trie.match(key)


def test_a_star_is_one_word_and_a_hash_any_number_of_them() -> None:
    patterns = ("a.*.c", "a.#", "#.c", "*", "#", "a.b.c")
    assert matched("a.b.c", *patterns) == {"a.*.c", "a.#", "#.c", "#", "a.b.c"}
    assert matched("a", *patterns) == {"a.#", "*", "#"}
    assert matched("a.b.b.c", *patterns) == {"a.#", "#.c", "#"}


def test_an_empty_word_is_a_word_and_an_empty_key_has_none() -> None:
    patterns = ("", "*", "#", "*.*", "a.*", ".")
    assert matched("", *patterns) == {"", "#"}
    assert matched(".", *patterns) == {"*.*", "#", "."}
    assert matched("a.", *patterns) == {"*.*", "a.*", "#"}


def test_a_hash_stands_for_nothing_between_words_too() -> None:
    assert matched("a.b", "a.#.b", "#.a.b", "a.b.#", "a.#.#.b", "#.#") == {
        "a.#.b",
        "#.a.b",
        "a.b.#",
        "a.#.#.b",
        "#.#",
    }


def test_wildcards_in_a_routing_key_are_words() -> None:
    assert matched("*.#", "*.#", "a.b", "*.*") == {"*.#", "*.*"}


def test_a_binding_made_twice_goes_with_its_second_removal() -> None:
    trie: TopicTrie[str] = TopicTrie()
    trie.add("a.*", "q")
    trie.add("a.*", "q")
    trie.remove("a.*", "q")
    assert trie.match("a.b") == {"q"}
    trie.remove("a.*", "q")
    assert trie.match("a.b") == set()


def test_nothing_is_kept_of_patterns_that_are_gone() -> None:
    trie: TopicTrie[str] = TopicTrie()
    for pattern in ("a.b.c", "a.*.#", "#", "a"):
        trie.add(pattern, "q")
    for pattern in ("a.b.c", "a.*.#", "#", "a"):
        trie.remove(pattern, "q")
    assert trie._root.empty


def test_a_pattern_that_was_not_added_can_not_be_removed() -> None:
    trie: TopicTrie[str] = TopicTrie()
    trie.add("a.b", "q")
    for pattern in ("a", "a.b.c", "*", "#"):
        with pytest.raises(KeyError):
            trie.remove(pattern, "q")
    assert trie.match("a.b") == {"q"}


def test_many_hashes_cost_no_more_than_words_times_places() -> None:
    trie: TopicTrie[str] = TopicTrie()
    trie.add(".".join(["#", "a"] * 30 + ["b"]), "q")
    before = process_time()
    assert trie.match(".".join(["a"] * 120)) == set()
    assert process_time() - before < 1
