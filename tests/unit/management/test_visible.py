"""The virtual hosts that a user of the management API sees."""

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.management.requests.errors import ManagementError
from headrace.management.requests.request import ManagementRequest, RequestUser
from headrace.management.requests.visible import require_vhost, sees, visible_vhosts
from headrace.operations.permissions import Caller, Surface
from headrace.queues.permissions.access import Grant
from headrace.queues.permissions.definitions import Definitions, UserDefinition, VhostDefinition
from tests.support.amqp.access import admission_of, identity_of

VHOSTS = ("/", "a", "b")
NOTHING = Grant("", "", "")
TAGS = ("", "management", "policymaker", "monitoring", "administrator", "impersonator")
UNSEEN = ("not_found", "Not Found")


class Stage:
    """Virtual hosts, and a user with permissions in `a`."""

    def __init__(self, tag: str) -> None:
        self.definitions = Definitions()
        for name in VHOSTS:
            self.definitions.put_vhost(name, VhostDefinition())
        user = UserDefinition(tags=tuple(filter(None, [tag])), grants={"a": NOTHING})
        self.definitions.put_user("ann", user)
        self.authorizer = admission_of(self.definitions)._authorizer

    def request(self, vhost: str = "a", method: str = "GET", user: str = "ann") -> Any:
        """Return a request of a user about a virtual host."""
        users = self.definitions.users
        tags = lambda: users[user].tags if user in users else ()  # noqa: E731
        caller = Caller(identity_of(user), Surface.MANAGEMENT, "", tags)
        services = SimpleNamespace(
            broker=SimpleNamespace(authorizer=self.authorizer),
            accounts=SimpleNamespace(definitions=self.definitions),
        )
        values, asked = {"vhost": vhost}, RequestUser(user)
        return ManagementRequest(method, values, {}, b"", caller, asked, services)

    def refused(self, vhost: str, method: str = "GET") -> tuple[int, str, object]:
        """Return the status and the texts of a refusal."""
        with pytest.raises(ManagementError) as raised:
            require_vhost(self.request(vhost, method))
        return raised.value.status, raised.value.error, raised.value.reason


@pytest.mark.parametrize("tag", TAGS)
def test_users_see_where_they_have_permissions_and_administrators_all(tag: str) -> None:
    stage = Stage(tag)
    seen = list(VHOSTS) if tag == "administrator" else ["a"]
    if tag in {"", "impersonator"}:
        assert visible_vhosts(stage.request()) == []
        assert stage.refused("a") == (404, *UNSEEN)
        return
    assert visible_vhosts(stage.request()) == seen
    assert require_vhost(stage.request("a")) == "a"
    for method in ("GET", "PUT", "POST", "DELETE"):
        if tag != "administrator":
            assert stage.refused("b", method) == (404, *UNSEEN)
            assert stage.refused("none", method) == (404, *UNSEEN), "it tells nothing of the name"


def test_a_virtual_host_that_does_not_exist_is_named_to_administrators() -> None:
    stage = Stage("administrator")
    for method in ("PUT", "POST"):
        assert stage.refused("none", method) == (404, "not_found", "vhost_not_found")
    for method in ("GET", "HEAD", "DELETE"):
        assert stage.refused("none", method) == (404, "Object Not Found", "Not Found")


def test_rights_that_change_count_at_once() -> None:
    stage = Stage("administrator")
    is_seen = sees(stage.request())
    assert is_seen("b")
    user = UserDefinition(tags=("monitoring",), grants={"a": NOTHING})
    stage.definitions.put_user("ann", user)
    assert not is_seen("b")
    assert is_seen("a")
    stage.definitions.put_user("ann", user._replace(grants={"b": NOTHING}))
    assert (is_seen("a"), is_seen("b")) == (False, True)
    stage.definitions.put_user("ann", user._replace(tags=(), grants={"b": NOTHING}))
    assert not is_seen("b")
    stage.definitions.put_user("ann", user._replace(grants={"b": NOTHING}))
    stage.definitions.put_vhost("b", None)
    assert not is_seen("b")
