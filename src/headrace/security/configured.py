"""Which authorizer a broker has, by its configuration."""

from headrace.config.broker import BrokerConfig
from headrace.config.listeners import Listener
from headrace.security.authorizer import AllowsAll, Authorizer
from headrace.security.identity import Principal


def default_authorizer(config: BrokerConfig) -> Authorizer:
    """Return the authorizer that a configuration asks for (ADR 42).

    With `authorizer.class.name` Kafka's ACLs decide. Without it everybody may do everything where
    all listeners are plain text that only this machine reaches, or that `insecure.listeners` gives
    leave to open; through any other listener only `super.users` may do anything.
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
    # A broker without rules does not load what decides by them.
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
    """Tell whether nobody authenticates at a listener, and that is as the operator wants it."""
    return listener.protocol == "PLAINTEXT" and (insecure or listener.loopback)


def topics_are_open(config: BrokerConfig) -> bool:
    """Tell whether nobody says who may do what with topics: Kafka's clients are not asked either.

    Listeners of other protocols do not count: their clients have permissions of their own.
    """
    return not config.authorizer_class_name and all(
        is_open(listener, insecure=config.insecure_listeners)
        for listener in config.listeners
        if listener.kafka
    )


def parse_super_users(text: str) -> frozenset[Principal]:
    """Parse `User:alice;User:bob`, as `super.users` has it; blanks and empty parts are left out."""
    parts = (part.strip() for part in text.split(";"))
    return frozenset(Principal(*part.split(":", 1)) for part in parts if part)
