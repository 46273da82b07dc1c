"""The users of a broker, for all frontends that they log in to."""

from typing import NamedTuple

from headrace.queues.permissions.definitions import Definitions
from headrace.security.identity import USER, Principal
from headrace.vhosts.users.logins import UserLogins

ADMINISTRATOR = "administrator"
"""RabbitMQ's tag of users who may do everything in its management API."""


class Accounts(NamedTuple):
    """The users of one broker: logins, tags, super users. On the deciding thread."""

    logins: UserLogins
    definitions: Definitions
    super_users: frozenset[Principal]

    def tags_of(self, user: str) -> tuple[str, ...]:
        """Return the tags that a user has now; a super user is an administrator."""
        found = self.definitions.users.get(user)
        tags = () if found is None else found.tags
        if ADMINISTRATOR in tags or Principal(USER, user) not in self.super_users:
            return tags
        return (*tags, ADMINISTRATOR)

    def administrators(self) -> list[str]:
        """Return the names of all users with the tag administrator, super users included."""
        names = {*self.definitions.users, *(each.name for each in self.super_users)}
        return sorted(name for name in names if ADMINISTRATOR in self.tags_of(name))
