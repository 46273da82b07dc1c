"""Keys of authorization: the authorizer, super users, and access without ACLs."""

from headrace.config.keys.row import Keys, key
from headrace.config.value_types import Kind

AUTHORIZERS = (
    "kafka.security.authorizer.AclAuthorizer",
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
)
"""Kafka's classes that are accepted as names of our own authorizer."""


class AuthorizationKeys(Keys):
    """Whether ACLs are enforced, and for whom they are not."""

    authorizer_class_name = key(
        Kind.STRING,
        "",
        "Whether ACLs decide access. Both of Kafka's class names mean Headrace's own"
        " authorizer; no class is loaded. Empty: everyone may do everything on listeners that"
        " are plain text on the loopback or opened by insecure.listeners, and only super.users"
        " on all others.",
        form=(
            "|".join(["", *AUTHORIZERS]).replace(".", r"\."),
            f"{AUTHORIZERS[0]} or {AUTHORIZERS[1]}, which both mean Headrace's own authorizer, or"
            " empty",
        ),
    )
    super_users = key(
        Kind.STRING,
        "",
        "Principals that may do everything regardless of ACLs, separated by semicolons:"
        " User:alice;User:bob. In a cluster with ACLs, the brokers' own principal must be one of"
        " them.",
        form=(
            r"(\s*|[^:;]+:[^;]+)(;(\s*|[^:;]+:[^;]+))*",
            "principals as User:NAME, separated by semicolons",
        ),
    )
    allow_everyone_if_no_acl_found = key(
        Kind.BOOLEAN,
        False,
        "Whether every principal may access a resource that has no ACLs.",
    )
