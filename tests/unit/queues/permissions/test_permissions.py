"""Permissions by expressions: who may do what, and what others are told."""

from time import process_time

import pytest

from headrace.model import regex
from headrace.queues.permissions import access as module
from headrace.queues.permissions.access import (
    NEEDED,
    Grant,
    InvalidPermission,
    Permission,
    Permissions,
    TopicGrant,
)
from headrace.queues.refusals import Refused
from tests.support.amqp.access import access_of
from tests.support.queues.virtual_hosts import refusal


def permissions_of(configure: str, write: str, read: str) -> Permissions:
    permissions = Permissions()
    permissions.set("u", "/", Grant(configure, write, read))
    return permissions


def test_each_permission_has_an_expression_of_its_own() -> None:
    permissions = permissions_of("^a", "b$", "^$")
    assert permissions.allows("u", "/", "ab", Permission.CONFIGURE)
    assert permissions.allows("u", "/", "ab", Permission.WRITE)
    assert not permissions.allows("u", "/", "ab", Permission.READ)
    assert not permissions.allows("u", "/", "ba", Permission.CONFIGURE)


def test_an_expression_matches_a_part_and_an_empty_one_nothing() -> None:
    permissions = permissions_of("art", "", ".*")
    assert permissions.allows("u", "/", "a part", Permission.CONFIGURE)
    assert not permissions.allows("u", "/", "q", Permission.WRITE)


def test_names_that_are_not_utf_8_are_matched() -> None:
    permissions = permissions_of("^q", "[.]a$", ".")
    for name, readable in ((b"q\xff.a", True), (b"\xff", False)):
        text = name.decode("utf-8", "surrogateescape")
        assert permissions.allows("u", "/", text, Permission.CONFIGURE) is readable
        assert permissions.allows("u", "/", text, Permission.WRITE) is readable
        assert permissions.allows("u", "/", text, Permission.READ) is readable


def test_who_has_no_permissions_in_a_vhost_may_do_nothing_there() -> None:
    permissions = permissions_of(".*", ".*", ".*")
    assert not permissions.allows("u", "other", "q", Permission.READ)
    assert not permissions.allows("v", "/", "q", Permission.READ)
    assert permissions.has_any("u", "/")
    assert not permissions.has_any("u", "other")


def test_a_refusal_names_permission_resource_and_user() -> None:
    access = access_of(permissions_of("", "", ""), "u", "/")
    for permission, kind, name, told in (
        (Permission.CONFIGURE, "queue", "q", "configure access to queue 'q'"),
        (Permission.WRITE, "exchange", "", "write access to exchange 'amq.default'"),
        (Permission.READ, "queue", "q", "read access to queue 'q'"),
    ):
        with pytest.raises(Refused) as refused:
            access.check(permission, kind, name)
        text = f"ACCESS_REFUSED - {told} in vhost '/' refused for user 'u'"
        assert refusal(refused) == text


def test_a_change_holds_at_once() -> None:
    permissions = permissions_of(".*", ".*", ".*")
    assert permissions.allows("u", "/", "q", Permission.READ)
    version = permissions.version
    permissions.set("u", "/", Grant(".*", ".*", "^x"))
    assert permissions.version > version
    assert not permissions.allows("u", "/", "q", Permission.READ)
    permissions.clear("u", "/")
    assert not permissions.allows("u", "/", "q", Permission.WRITE)


def test_answers_are_kept_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ANSWERS_KEPT_MAX", 10)
    permissions = permissions_of("1$", "", "")
    for number in range(35):
        allowed = permissions.allows("u", "/", f"q{number}", Permission.CONFIGURE)
        assert allowed is (number % 10 == 1)
        assert len(permissions._kept) <= 10


def test_what_cannot_be_matched_in_bounded_time_is_refused_when_set() -> None:
    permissions = permissions_of("(a|a)*$", "", "")
    for expression in ("(a)\\1", "a(?=b)", "a["):
        with pytest.raises(InvalidPermission, match="the write permission of user 'u'"):
            permissions.set("u", "/", Grant("", expression, ""))
    before = process_time()
    assert not permissions.allows("u", "/", "a" * 200 + "b", Permission.WRITE)
    permissions.allows("u", "/", "a" * 200 + "b", Permission.CONFIGURE)
    assert process_time() - before < 1


def test_topics_are_all_permitted_until_some_are_named() -> None:
    permissions = permissions_of(".*", ".*", ".*")
    access = access_of(permissions, "u", "/")
    access.check_topic(Permission.WRITE, "amq.topic", "anything")
    permissions.set_topic("u", "/", "amq.topic", TopicGrant(r"^{username}\.", r"^x-{vhost}"))
    access.check_topic(Permission.WRITE, "amq.topic", "u.a")
    access.check_topic(Permission.READ, "amq.topic", "x-/")
    access.check_topic(Permission.WRITE, "other", "v.a")
    with pytest.raises(Refused) as refused:
        access.check_topic(Permission.WRITE, "amq.topic", "v.a")
    assert refusal(refused) == (
        "ACCESS_REFUSED - write access to topic 'v.a' in exchange 'amq.topic' in vhost '/'"
        " refused for user 'u'"
    )
    permissions.clear_topic("u", "/")
    access.check_topic(Permission.WRITE, "amq.topic", "v.a")


def test_a_users_name_is_no_expression_in_a_topics_permission() -> None:
    permissions = Permissions()
    permissions.set_topic("a.*", "/", "t", TopicGrant("^{username}$", ""))
    permissions.check_topic("a.*", "/", "t", "a.*", Permission.WRITE)
    with pytest.raises(Refused):
        permissions.check_topic("a.*", "/", "t", "abc", Permission.WRITE)


def test_publishing_writes_to_an_exchange_and_consuming_reads_a_queue() -> None:
    permissions = permissions_of("", "^e$", "^q$")
    for method, name in (
        ("basic.publish", "e"),
        ("basic.get", "q"),
        ("basic.consume", "q"),
        ("queue.purge", "q"),
    ):
        permission, kind = NEEDED[method]
        access_of(permissions, "u", "/").check(permission, kind, name)


def test_without_the_library_all_and_nothing_can_be_set_and_the_rest_is_refused_in_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(*_: object) -> object:
        raise ImportError("No module named 're2'")

    monkeypatch.setattr(regex, "_compiled", missing)
    monkeypatch.setattr(regex, "_engine", missing)
    permissions = permissions_of(".*", "", "^$")
    assert permissions.allows("u", "/", "anything", Permission.CONFIGURE)
    assert not permissions.allows("u", "/", "q", Permission.WRITE)
    assert not permissions.allows("u", "/", "q", Permission.READ)
    with pytest.raises(InvalidPermission, match="the google-re2 package is missing"):
        permissions.set("u", "/", Grant("^own", "", ""))
    with pytest.raises(InvalidPermission, match="the google-re2 package is missing"):
        permissions.set_topic("u", "/", "t", TopicGrant("{username}", ""))
    assert permissions.allows("u", "/", "anything", Permission.CONFIGURE), "what was before holds"
