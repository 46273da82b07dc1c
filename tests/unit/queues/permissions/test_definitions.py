"""Vhosts and users of AMQP: as texts in the store and back, and followed as they change."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.queues.permissions.access import Grant, Permission, Permissions, TopicGrant
from headrace.queues.permissions.definitions import (
    GUEST_BY_DEFAULT,
    Definitions,
    UserDefinition,
    VhostDefinition,
    check_name,
    decode_user,
    decode_vhost,
    encode_user,
    encode_vhost,
)

ALL = Grant(".*", ".*", ".*")
NAMES = st.text(min_size=1, max_size=20)
LIMITS = st.integers(min_value=-1, max_value=100)
LATER = st.dictionaries(NAMES.map("later {}".format), st.text(max_size=9), max_size=2)
"""Settings of a later version."""
TAGS = st.text(st.characters(exclude_characters=","), min_size=1, max_size=9)


@given(
    st.builds(
        VhostDefinition,
        st.text(max_size=20),
        LIMITS,
        LIMITS,
        st.lists(TAGS, max_size=3).map(tuple),
        st.sampled_from(["", "quorum"]),
        st.booleans(),
        st.booleans(),
        LATER,
    ),
    st.builds(
        UserDefinition,
        st.lists(TAGS, max_size=3).map(tuple),
        LIMITS,
        LIMITS,
        st.dictionaries(NAMES, st.builds(Grant, NAMES, NAMES, NAMES), max_size=3),
        st.dictionaries(st.tuples(NAMES, NAMES), st.builds(TopicGrant, NAMES, NAMES), max_size=3),
        st.sampled_from(["", "rabbit_password_hashing_sha256:AAAA"]),
        LATER,
    ),
)
def test_what_is_written_is_read_as_it_was(vhost: VhostDefinition, user: UserDefinition) -> None:
    assert decode_vhost(encode_vhost(vhost)) == vhost
    assert decode_user(encode_user(user)) == user
    # A node without settings is none at all.
    assert encode_vhost(vhost)
    assert encode_user(user)


@pytest.mark.parametrize(
    "texts",
    [
        {"permissions//": '["a","b"]'},
        {"permissions//": "{}"},
        {"permissions//": "nonsense"},
        {"topic-permissions//": '{"e":["a"]}'},
        {"max-connections": "many"},
    ],
)
def test_what_cannot_be_read_is_no_user(texts: dict[str, str]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whichever part it is of
        decode_user(texts)


def may(permissions: Permissions, user: str, vhost: str = "/") -> bool:
    return permissions.allows(user, vhost, "q", Permission.READ)


def test_permissions_follow_a_user_and_go_with_him() -> None:
    definitions = Definitions()
    told: list[str] = []
    definitions.user_changed.append(told.append)
    definitions.put_user("u", UserDefinition(grants={"/": ALL, "shop": ALL}))
    assert may(definitions.permissions, "u")
    definitions.put_user("u", UserDefinition(grants={"shop": ALL}))
    assert not may(definitions.permissions, "u")
    assert may(definitions.permissions, "u", "shop")
    definitions.put_user("u", UserDefinition(grants={"shop": ALL}))
    definitions.put_user("u", None)
    assert not definitions.permissions.has_any("u", "shop")
    assert told == ["u", "u", "u"], "what is the same is no change"


NAMED = st.sampled_from(["a", "b"])
SIMPLE = st.sampled_from(["", ".*", "^q", "x$"])
CHANGES = st.lists(
    st.tuples(
        NAMED,
        st.one_of(
            st.none(),
            st.dictionaries(NAMED, st.builds(Grant, SIMPLE, SIMPLE, SIMPLE), max_size=2),
        ),
    ),
    max_size=12,
)


@given(CHANGES)
def test_whatever_the_way_users_may_do_what_they_were_given_last(
    changes: list[tuple[str, dict[str, Grant] | None]],
) -> None:
    definitions, fresh = Definitions(), Definitions()
    for user, grants in changes:
        definitions.put_user(user, None if grants is None else UserDefinition(grants=grants))
        definitions.permissions.allows(user, "a", "q", Permission.READ)
    for user, grants in dict(changes).items():
        if grants is not None:
            fresh.put_user(user, UserDefinition(grants=grants))
    for user, vhost, name in product("ab", "ab", ("q", "qx", "x")):
        for permission in Permission:
            asked = (user, vhost, name, permission)
            assert definitions.permissions.allows(*asked) is fresh.permissions.allows(*asked)
        has_any = fresh.permissions.has_any(user, vhost)
        assert definitions.permissions.has_any(user, vhost) is has_any


def test_topic_permissions_that_are_no_more_bind_nobody() -> None:
    definitions = Definitions()
    only_a = {("/", "t"): TopicGrant("^a$", "^a$")}
    definitions.put_user("u", UserDefinition(topic_grants=only_a))
    with pytest.raises(Exception, match="access to topic 'b'"):
        definitions.permissions.check_topic("u", "/", "t", "b", Permission.WRITE)
    definitions.put_user("u", UserDefinition())
    definitions.permissions.check_topic("u", "/", "t", "b", Permission.WRITE)


def test_an_expression_that_is_none_here_gives_its_user_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    definitions = Definitions()
    wrong = UserDefinition(grants={"/": ALL, "shop": Grant("a(?=b)", ".*", ".*")})
    definitions.put_user("u", wrong)
    assert not definitions.permissions.has_any("u", "/")
    assert "user 'u' has no AMQP permissions" in caplog.text


def test_all_is_replaced_and_the_vhost_slash_stays() -> None:
    definitions = Definitions(guest=True)
    definitions.replace({"a": VhostDefinition()}, {"u": UserDefinition()})
    definitions.replace({"b": VhostDefinition(queues_max=3)}, {})
    of_slash = VhostDefinition("Default virtual host")
    assert definitions.vhosts == {"/": of_slash, "b": VhostDefinition(queues_max=3)}
    assert definitions.users == {"guest": GUEST_BY_DEFAULT}


def test_guest_may_do_all_in_slash_until_something_else_is_said() -> None:
    assert not may(Definitions().permissions, "guest")
    definitions = Definitions(guest=True)
    assert may(definitions.permissions, "guest")
    assert not may(definitions.permissions, "guest", "shop")
    definitions.put_user("guest", UserDefinition())
    assert not may(definitions.permissions, "guest")
    definitions.put_user("guest", None)
    assert may(definitions.permissions, "guest")


@pytest.mark.parametrize("name", ["", ".", "..", "a\nb", "a\0", "é" * 128])
def test_what_no_node_and_no_short_string_can_hold_is_no_name(name: str) -> None:
    with pytest.raises(ValueError, match="name of a vhost"):
        check_name("vhost", name)


def test_a_hash_is_shown_to_nobody() -> None:
    assert "AAAA" not in repr(UserDefinition(password_hash="rabbit_password_hashing_sha256:AAAA"))
