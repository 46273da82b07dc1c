"""AMQP's routes against a model that tries every binding, while bindings come and go."""

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.nouns import topic_name_problem
from headrace.queues.model.declarations import QueueCounts
from headrace.queues.model.exchanges import Binding, Destination
from headrace.queues.model.topic_trie import TopicTrie
from headrace.queues.model.virtual_host import VirtualHost
from headrace.queues.queue_names import queue_of_topic, queue_topic
from headrace.wire.amqp.field_table import encode_table
from tests.support.examples import examples
from tests.support.queues.virtual_hosts import ME, exchange, queue, virtual_host

words = st.sampled_from(["a", "b", "", "*", "#"])
patterns = st.lists(words, max_size=5).map(".".join)
keys = st.lists(st.sampled_from(["a", "b", "c", "", "*"]), max_size=6).map(".".join)


def fits(pattern: list[str], key: list[str]) -> bool:
    """Tell whether a pattern matches, trying what each `#` may stand for."""
    if not pattern:
        return not key
    if pattern[0] == "#":
        return any(fits(pattern[1:], key[taken:]) for taken in range(len(key) + 1))
    return bool(key) and pattern[0] in {"*", key[0]} and fits(pattern[1:], key[1:])


def topic_fits(pattern: str, key: str) -> bool:
    return fits(pattern.split(".") if pattern else [], key.split(".") if key else [])


@settings(max_examples=examples(150))
@given(st.lists(st.tuples(st.booleans(), patterns), max_size=20), st.lists(keys, max_size=5))
def test_the_trie_matches_what_each_pattern_would(
    changes: list[tuple[bool, str]], asked: list[str]
) -> None:
    trie: TopicTrie[str] = TopicTrie()
    held: list[str] = []
    for adds, pattern in changes:
        if adds or pattern not in held:
            trie.add(pattern, pattern)
            held.append(pattern)
        else:
            trie.remove(pattern, pattern)
            held.remove(pattern)
    for key in asked:
        assert trie.match(key) == {pattern for pattern in held if topic_fits(pattern, key)}


EXCHANGES = {"d": "direct", "f": "fanout", "t": "topic", "h": "headers"}
QUEUES = ("p", "q", "r")
headers = st.dictionaries(st.sampled_from("xy"), st.sampled_from([1, True, "1", None]), max_size=2)
destinations = st.one_of(
    st.sampled_from(QUEUES).map(lambda name: Destination("queue", name)),
    st.sampled_from(tuple(EXCHANGES)).map(lambda name: Destination("exchange", name)),
)
arguments: st.SearchStrategy[dict[str, object]] = st.one_of(
    st.just({}), headers, headers.map(lambda asked: {"x-match": "any", **asked})
)
bindings = st.builds(Binding, st.sampled_from(tuple(EXCHANGES)), destinations, patterns, arguments)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("bind"), bindings),
        st.tuples(st.just("bind"), bindings),
        st.tuples(st.just("unbind"), bindings),
        st.tuples(st.just("route"), st.tuples(keys, st.lists(keys, max_size=2), headers)),
        st.tuples(st.just("queue"), st.sampled_from(QUEUES)),
        st.tuples(st.just("exchange"), st.sampled_from(tuple(EXCHANGES))),
    ),
    max_size=25,
)
Sent = tuple[str, list[str], dict[str, object]]


def held_by(host: VirtualHost) -> list[Binding]:
    return [of for exchange in host.exchanges.values() for of in exchange.bindings.values()]


def same(value: object, other: object) -> bool:
    return type(value) is type(other) and value == other


def wants(binding: Binding, sent: Sent) -> bool:
    key, more_keys, given_headers = sent
    of_all = [key, *more_keys]
    match EXCHANGES[binding.source]:
        case "direct":
            return binding.routing_key in of_all
        case "topic":
            return any(topic_fits(binding.routing_key, each) for each in of_all)
        case "headers":
            asked = {name: of for name, of in binding.arguments.items() if name != "x-match"}
            found = [
                name in given_headers and (of is None or same(of, given_headers[name]))
                for name, of in asked.items()
            ]
            return any(found) if "x-match" in binding.arguments else all(found)
    return True


def expected(held: list[Binding], source: str, sent: Sent) -> tuple[str, ...]:
    """Follow bindings until nothing new is reached; `d` has the alternate exchange `f`."""
    reached, queues, news = {source}, set(), [source]
    while news:
        source = news.pop()
        found = {of.destination for of in held if of.source == source and wants(of, sent)}
        if not found and source == "d":
            found = {Destination("exchange", "f")}
        for kind, name in found:
            if kind == "queue":
                queues.add(name)
            elif name not in reached:
                reached.add(name)
                news.append(name)
    return tuple(sorted(queues))


def declare(host: VirtualHost, name: str) -> None:
    alternate = {"alternate-exchange": "f"} if name == "d" else {}
    exchange(host, name, EXCHANGES[name], alternate)


@settings(max_examples=examples(100), deadline=None)
@given(steps)
def test_routes_are_what_trying_every_binding_gives(plan: list[tuple[str, object]]) -> None:
    host = virtual_host()
    for name in EXCHANGES:
        declare(host, name)
    for name in QUEUES:
        queue(host, name)
    for step, what in plan:
        match step, what:
            case "bind", Binding():
                host.bind(what, ME)
            case "unbind", Binding():
                host.unbind(what, ME)
            case "queue", str():
                host.delete_queue(what, ME, QueueCounts())
                assert not [of for of in held_by(host) if of.destination == ("queue", what)]
                queue(host, what)
            case "exchange", str():
                host.delete_exchange(what)
                assert not [of for of in held_by(host) if what in {of.source, of.destination.name}]
                declare(host, what)
            case "route", (str(key), list(more_keys), dict(given_headers)):
                for source in EXCHANGES:
                    for more in ([], more_keys):
                        sent = (key, more, given_headers)
                        route = host.router.route(source, key, encode_table(given_headers), more)
                        assert route == expected(held_by(host), source, sent)
    for name in QUEUES:
        host.remove_queue(name)
    for name in EXCHANGES:
        host.delete_exchange(name)
    assert not host.bindings._to


names = st.text(alphabet=st.sampled_from("aZ0._-/@ä\n"), max_size=12) | st.text(max_size=90)


@settings(max_examples=examples(100))
@given(st.tuples(names, names), st.tuples(names, names))
def test_two_queues_have_two_topics_and_kafka_takes_both(
    first: tuple[str, str], second: tuple[str, str]
) -> None:
    assert (queue_topic(*first) == queue_topic(*second)) is (first == second)
    topic = queue_topic(*first)
    assert topic_name_problem(topic) is None
    assert queue_of_topic(topic) in {first, None}
    assert (queue_of_topic(topic) is None) is topic.startswith("__amqp.hash.")
