"""Choose the authorizer according to the broker's configuration."""

from headrace.config.broker import BrokerConfig
from headrace.config.listeners import Listener
from headrace.security.authorizer import AllowsAll, Authorizer
from headrace.security.identity import Principal


def default_authorizer(config: BrokerConfig) -> Authorizer:
    """Return the authorizer for a configuration (ADR 42).

    With `authorizer.class.name` Kafka's ACLs decide. Without it, all operations are allowed if
    every listener is plain text and either on loopback or permitted by `insecure.listeners`.
    Through any other listener only `super.users` may do anything.
    """
    open_names = {
        listener.name
        for listener in config.listeners
        if is_open(listener, insecure=config.insecure_listeners)
    }
    if not config.authorizer_class_name and all(
        listener.name in open_names for listener in config.listeners
    ):
        return AllowsAll()
    # Imported here, so that a broker without rules does not load this code.
    from headrace.security.acl_rules import AclRules
    from headrace.security.open_listeners import OpenListeners
    from headrace.security.rules import RuleAuthorizer

    super_users = parse_super_users(config.super_users)
    if config.authorizer_class_name:
        return RuleAuthorizer(
            [AclRules()],
            super_users=super_users,
            allow_unruled=config.allow_everyone_if_no_acl_found,
        )
    return RuleAuthorizer([OpenListeners(open_names)], super_users=super_users)


def is_open(listener: Listener, *, insecure: bool) -> bool:
    """Return whether a listener needs no authentication, and the operator accepts that."""
    return listener.spoken.anonymous and (insecure or listener.loopback)


def topics_are_open(config: BrokerConfig) -> bool:
    """Return whether topics have no access control, so that Kafka clients are not authorised
    either.

    Listeners of other protocols are ignored: their users have permissions of their own.
    """
    return not config.authorizer_class_name and all(
        is_open(listener, insecure=config.insecure_listeners)
        for listener in config.listeners
        if listener.kafka
    )


def parse_super_users(text: str) -> frozenset[Principal]:
    """Parse `super.users`, such as `User:alice;User:bob`; blanks and empty parts are ignored."""
    parts = (part.strip() for part in text.split(";"))
    return frozenset(Principal(*part.split(":", 1)) for part in parts if part)
