"""The znodes of ACLs: a node for each resource pattern, and notices of changes.

As Kafka 3.9's AclAuthorizer writes them: literal patterns below `/kafka-acl`, others below
`/kafka-acl-extended`, each with its own form of notices.
"""

import json
from collections.abc import Iterable

from headrace.cluster.store.znodes import NONSENSE, BadPayload
from headrace.security.acl import AclEntry, Permission
from headrace.security.authorizer import (
    NOT_KAFKAS,
    Operation,
    PatternType,
    Resource,
    ResourceType,
)

LITERAL_ACLS = "/kafka-acl"
PREFIXED_ACLS = "/kafka-acl-extended/prefixed"
LITERAL_CHANGES = "/kafka-acl-changes"
PREFIXED_CHANGES = "/kafka-acl-extended-changes"
ROOT_OF = {PatternType.LITERAL: LITERAL_ACLS, PatternType.PREFIXED: PREFIXED_ACLS}
CHANGES_OF = {PatternType.LITERAL: LITERAL_CHANGES, PatternType.PREFIXED: PREFIXED_CHANGES}
NOTICE = "acl_changes_"
"""Prefix of the names of notices."""
_VERSION = 1


def word(member: Operation | Permission | ResourceType) -> str:
    """Return a name in the spelling of znodes: `DescribeConfigs`, `TransactionalId`."""
    return "".join(part.capitalize() for part in member.name.split("_"))


OPERATIONS = {word(found): found for found in Operation if found >= Operation.ALL}
PERMISSIONS = {word(found): found for found in Permission if found > Permission.ANY}
KINDS = {word(found): found for found in ResourceType if ResourceType.ANY < found < NOT_KAFKAS}

ROOTS = (
    *(f"{root}/{kind}" for root in ROOT_OF.values() for kind in KINDS),
    *CHANGES_OF.values(),
)
"""Paths that are created, if missing, when an authorizer is configured."""


def is_node_name(name: str) -> bool:
    """Return whether ZooKeeper accepts a name for a node."""
    return bool(name) and "/" not in name and name not in (".", "..") and name.isprintable()


def path_of(resource: Resource) -> str:
    """Return the path of a pattern's entries; its name must satisfy `is_node_name`."""
    return f"{ROOT_OF[resource.pattern]}/{word(resource.kind)}/{resource.name}"


def encode_acls(entries: Iterable[AclEntry]) -> bytes:
    """Encode the entries of one pattern, in a fixed order."""
    acls = [
        {
            "principal": entry.principal,
            "permissionType": word(entry.permission),
            "operation": word(entry.operation),
            "host": entry.host,
        }
        for entry in sorted(entries)
    ]
    return _encode({"version": _VERSION, "acls": acls})


def decode_acls(path: str, value: bytes) -> frozenset[AclEntry]:
    """Decode the entries of one pattern; an empty node has none. Raises BadPayload."""
    if not value:
        return frozenset()
    try:
        payload = json.loads(value)
        if payload["version"] != _VERSION:
            raise ValueError("its version is not known")
        return frozenset(
            AclEntry(
                _principal(acl["principal"]),
                str(acl["host"]),
                OPERATIONS[acl["operation"]],
                PERMISSIONS[acl["permissionType"]],
            )
            for acl in payload["acls"]
        )
    except NONSENSE as error:
        raise BadPayload(f"{path}: {error!r} in {value[:200]!r}") from error


def encode_change(resource: Resource) -> bytes:
    """Encode the notice that a pattern's entries changed."""
    if resource.pattern is PatternType.LITERAL:
        return f"{word(resource.kind)}:{resource.name}".encode()
    return _encode(
        {
            "version": _VERSION,
            "resourceType": resource.kind.name,
            "name": resource.name,
            "patternType": resource.pattern.name,
        }
    )


def decode_literal_change(value: bytes) -> Resource | None:
    """Return the literal pattern that a notice names; None: it is malformed."""
    try:
        kind, _, name = value.decode().partition(":")
        return Resource(KINDS[kind], name) if is_node_name(name) else None
    except (UnicodeDecodeError, KeyError):
        return None


def decode_prefixed_change(value: bytes) -> Resource | None:
    """Return the pattern that an extended notice names; None: it is malformed or unknown."""
    try:
        payload = json.loads(value)
        kind = ResourceType[payload["resourceType"].upper()]
        pattern = PatternType[payload["patternType"].upper()]
        name = str(payload["name"])
    except NONSENSE:
        return None
    known = is_node_name(name) and kind > ResourceType.ANY and pattern in ROOT_OF
    return Resource(kind, name, pattern) if known else None


def _principal(text: str) -> str:
    kind, _, name = text.partition(":")
    if not kind or not name:
        raise ValueError(f"{text!r} is no principal")
    return text


def _encode(payload: object) -> bytes:
    return json.dumps(payload, separators=(",", ":"), ensure_ascii=False).encode()
