"""Kafka's ACLs in memory, indexed by resource: a decision never scans other resources' ACLs."""

from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple

from headrace.model.nouns import QUEUE_TOPIC_PREFIX
from headrace.security.acl import (
    ANY_HOST,
    ANY_NAME,
    ANYBODY,
    AclBinding,
    AclEntry,
    AclFilter,
    Permission,
)
from headrace.security.authorizer import (
    Authorizer,
    Operation,
    PatternType,
    Resource,
    ResourceType,
)
from headrace.security.identity import Identity
from headrace.security.rules import Reach, RuleAuthorizer, Ruling

_IMPLYING = {
    Operation.DESCRIBE: (
        Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER,
        Operation.ALL,
    ),
    Operation.DESCRIBE_CONFIGS: (
        Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS, Operation.ALL,
    ),
}  # fmt: skip
"""Operations whose permission implies a weaker operation; denials imply nothing."""

_Entries = frozenset[AclEntry]
_NO_ENTRIES: _Entries = frozenset()
_Rules = Mapping[tuple[Permission, Operation, str], frozenset[str]]
"""The ACLs of a resource pattern: hosts by permission, operation and principal."""


class _Whose(NamedTuple):
    """Entries that differ only in their resource's name."""

    permission: Permission
    pattern: PatternType
    kind: ResourceType
    operation: Operation
    principal: str
    host: str


class AclRules:
    """All ACLs of the cluster, indexed by resource pattern; a `rules.RuleSource`."""

    def __init__(self) -> None:
        """Create an empty set of ACLs."""
        self.version = 0
        self._entries: dict[Resource, _Entries] = {}
        self._rules: dict[Resource, _Rules] = {}
        self._prefix_lengths: dict[ResourceType, Counter[int]] = {
            kind: Counter() for kind in ResourceType
        }
        self._names: dict[_Whose, set[str]] = {}

    # --- changes -------------------------------------------------------------------------------

    def put(self, resource: Resource, entries: Iterable[AclEntry]) -> None:
        """Replace all entries of a resource pattern; an empty collection removes the pattern."""
        wanted = frozenset(entries)
        before = self._entries.get(resource, _NO_ENTRIES)
        if wanted == before:
            return
        self._forget_names(resource, before)
        self._keep_names(resource, wanted)
        if resource.pattern is PatternType.PREFIXED:
            self._count_prefix(resource, bool(wanted) - bool(before))
        if wanted:
            self._entries[resource] = wanted
            self._rules[resource] = _rules(wanted)
        else:
            del self._entries[resource], self._rules[resource]
        self.version += 1

    def replace(self, all_entries: Mapping[Resource, Iterable[AclEntry]]) -> None:
        """Replace all ACLs."""
        for resource in [known for known in self._entries if known not in all_entries]:
            self.put(resource, ())
        for resource, entries in all_entries.items():
            self.put(resource, entries)

    def _count_prefix(self, resource: Resource, more: int) -> None:
        lengths = self._prefix_lengths[resource.kind]
        lengths[len(resource.name)] += more
        if not lengths[len(resource.name)]:
            del lengths[len(resource.name)]

    def _keep_names(self, resource: Resource, entries: _Entries) -> None:
        for entry in entries:
            self._names.setdefault(_whose(resource, entry), set()).add(resource.name)

    def _forget_names(self, resource: Resource, entries: _Entries) -> None:
        for whose in {_whose(resource, entry) for entry in entries}:
            names = self._names[whose]
            names.discard(resource.name)
            if not names:
                del self._names[whose]

    # --- queries -------------------------------------------------------------------------------

    def entries(self, resource: Resource) -> AbstractSet[AclEntry]:
        """Return the entries of exactly this resource pattern."""
        return self._entries.get(resource, _NO_ENTRIES)

    def matching(self, wanted: AclFilter) -> list[AclBinding]:
        """Return the ACLs that match a filter, sorted by resource; scans all resources."""
        return [
            AclBinding(resource, entry)
            for resource in sorted(filter(wanted.matches_resource, self._entries))
            for entry in sorted(filter(wanted.matches_entry, self._entries[resource]))
        ]

    def ruling(self, identity: Identity, operation: Operation, resource: Resource) -> Ruling:
        """Return the decision of the resource's ACLs, wildcard and prefixed patterns included."""
        found = self._of(resource.kind, resource.name)
        if not found:
            return Ruling.UNRULED
        who, host = str(identity.principal), same_host(identity.host)
        ruling = Ruling.SILENT
        denying = (operation, Operation.ALL)
        allowing = _IMPLYING.get(operation, denying)
        for pattern, rules in found:
            if _speaks(rules, Permission.DENY, denying, who, host):
                return Ruling.DENIED
            if (
                ruling is not Ruling.ALLOWED
                and _may_allow(pattern, resource)
                and _speaks(rules, Permission.ALLOW, allowing, who, host)
            ):
                ruling = Ruling.ALLOWED
        return ruling

    def _of(self, kind: ResourceType, name: str) -> list[tuple[Resource, _Rules]]:
        rules = self._rules
        patterns = [Resource(kind, name), Resource(kind, ANY_NAME)]
        patterns += [
            Resource(kind, name[:length], PatternType.PREFIXED)
            for length in self._prefix_lengths[kind]
            if length <= len(name)
        ]
        return [
            (pattern, found) for pattern in patterns if (found := rules.get(pattern)) is not None
        ]

    def reach(self, identity: Identity, operation: Operation, kind: ResourceType) -> Reach:
        """Return the resource names and prefixes in the entries that apply to this identity."""

        def names(permission: Permission, pattern: PatternType) -> list[AbstractSet[str]]:
            return [
                found
                for who in (str(identity.principal), ANYBODY)
                for host in (same_host(identity.host), ANY_HOST)
                for done in (operation, Operation.ALL)
                if (found := self._names.get(_Whose(permission, pattern, kind, done, who, host)))
            ]

        literal, prefixed = PatternType.LITERAL, PatternType.PREFIXED
        return Reach(
            names(Permission.ALLOW, literal),
            names(Permission.ALLOW, prefixed),
            names(Permission.DENY, literal),
            names(Permission.DENY, prefixed),
        )


def acl_rules_of(authorizer: Authorizer) -> AclRules | None:
    """Return the ACLs that an authorizer uses; None if it uses none."""
    sources = authorizer.sources if isinstance(authorizer, RuleAuthorizer) else ()
    return next((source for source in sources if isinstance(source, AclRules)), None)


def same_host(text: str) -> str:
    """Return an address in canonical form, IPv4-mapped IPv6 as IPv4; other texts are unchanged."""
    try:
        address = ip_address(text)
    except ValueError:
        return text
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)


def _may_allow(pattern: Resource, resource: Resource) -> bool:
    """Return whether ACLs of a pattern may allow access: a queue's topic must be named as such.

    A wildcard allows only Kafka's topics; a wildcard denial covers all topics.
    """
    if resource.kind is not ResourceType.TOPIC or not resource.name.startswith(QUEUE_TOPIC_PREFIX):
        return True
    return pattern.name.startswith(QUEUE_TOPIC_PREFIX)


def _whose(resource: Resource, entry: AclEntry) -> _Whose:
    return _Whose(
        entry.permission,
        resource.pattern,
        resource.kind,
        entry.operation,
        entry.principal,
        same_host(entry.host),
    )


def _rules(entries: _Entries) -> _Rules:
    hosts: dict[tuple[Permission, Operation, str], set[str]] = {}
    for entry in entries:
        key = (entry.permission, entry.operation, entry.principal)
        hosts.setdefault(key, set()).add(same_host(entry.host))
    return {key: frozenset(found) for key, found in hosts.items()}


def _speaks(
    rules: _Rules, permission: Permission, operations: tuple[Operation, ...], who: str, host: str
) -> bool:
    for operation in operations:
        for principal in (who, ANYBODY):
            hosts = rules.get((permission, operation, principal))
            if hosts is not None and (host in hosts or ANY_HOST in hosts):
                return True
    return False
