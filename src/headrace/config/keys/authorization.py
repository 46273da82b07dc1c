"""Keys of authorisation: who may do what."""

from headrace.config.keys.row import Keys, key
from headrace.config.value_types import Kind

AUTHORIZERS = (
    "kafka.security.authorizer.AclAuthorizer",
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
)
"""Kafka's classes that are accepted as names of our own authorizer."""


class AuthorizationKeys(Keys):
    """Whether ACLs decide, and who they do not bind."""

    authorizer_class_name = key(
        Kind.STRING,
        "",
        "Whether ACLs decide who may do what: either of Kafka's names means Headrace's own"
        " authorizer, and no class is ever loaded. Empty: everybody may do everything through"
        " listeners that are plain text on the loopback or opened by insecure.listeners, and only"
        " super.users through all others.",
        form=(
            "|".join(["", *AUTHORIZERS]).replace(".", r"\."),
            f"{AUTHORIZERS[0]} or {AUTHORIZERS[1]}, which both mean Headrace's own authorizer, or"
            " empty",
        ),
    )
    super_users = key(
        Kind.STRING,
        "",
        "Principals that may do everything whatever the ACLs say, separated by semicolons:"
        " User:alice;User:bob. Brokers of a cluster with ACLs reach each other as one of them.",
        form=(
            r"(\s*|[^:;]+:[^;]+)(;(\s*|[^:;]+:[^;]+))*",
            "principals as User:NAME, separated by semicolons",
        ),
    )
    allow_everyone_if_no_acl_found = key(
        Kind.BOOLEAN,
        False,
        "Whether everybody may do everything to a resource that no ACL is of.",
    )
