"""Users with permissions, as the broker's authorizer decides by them."""

from collections.abc import Iterable

from headrace.queues.permissions.access import Access, Grant, Permissions
from headrace.queues.permissions.definitions import Definitions, UserDefinition
from headrace.security.audit import Audit
from headrace.security.identity import USER, Identity, Principal
from headrace.security.rules import RuleAuthorizer, RuleSource
from headrace.vhosts.access import Admission
from tests.support.coordination.groups_kit import HandClock

PEER = "192.0.2.7"


def identity_of(user: str) -> Identity:
    """Return who comes by a listener of AMQP."""
    return Identity(PEER, "AMQP", Principal(USER, user))


def admission_of(
    definitions: Definitions,
    sources: Iterable[RuleSource] = (),
    super_users: Iterable[str] = (),
    *,
    allow_unruled: bool = False,
) -> Admission:
    """Return what lets users in by `definitions`, beside further rules."""
    authorizer = RuleAuthorizer(
        list(sources),
        super_users=[Principal(USER, name) for name in super_users],
        allow_unruled=allow_unruled,
    )
    return Admission(definitions, authorizer, Audit(HandClock()))


def access_of(permissions: Permissions, user: str, vhost: str) -> Access:
    """Return what a user may do in a vhost."""
    definitions = Definitions()
    definitions.permissions = permissions
    return admission_of(definitions).access(identity_of(user), vhost)


def reader_and_guest() -> Admission:
    """Return what RabbitMQ was asked with: `reader` reads all, writes and configures what is his.

    `guest` may do everything.
    """
    definitions = Definitions(guest=True)
    own = Grant(r"^own\.", r"^own\.", ".*")
    definitions.put_user("reader", UserDefinition(grants={"/": own}))
    return admission_of(definitions)
