"""`AclSettings`: the ACLs of the broker's authorizer: loaded, changed, followed in the store."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headrace.broker.broker import Broker
from headrace.cluster.settings.entity_settings import store_failed
from headrace.cluster.settings.noticed_changes import NoticedChanges
from headrace.cluster.store import acl_znodes
from headrace.cluster.store.acl_store import AclStore, Changed, Entries
from headrace.cluster.store.notices import Notices
from headrace.cluster.store.znodes import BadPayload
from headrace.model.errors import ApiError, ErrorCode
from headrace.ports.store import Store, StoreError
from headrace.posix.awaiting import carried_on
from headrace.security.acl import AclBinding, AclFilter
from headrace.security.acl_rules import AclRules, acl_rules_of
from headrace.security.authorizer import PatternType, Resource

if TYPE_CHECKING:
    from collections.abc import Iterable

_logger = logging.getLogger(__name__)


class AclSettings:
    """The ACLs that the broker's authorizer uses, and their changes in the store."""

    def __init__(self, broker: Broker, store: Store, change: asyncio.Lock) -> None:
        """Create the ACL settings without ACLs. `change`: lock held during a change."""
        self._broker = broker
        self._acls = AclStore(store)
        self._change = change

    @property
    def enabled(self) -> bool:
        """Whether the authorizer uses ACLs."""
        return acl_rules_of(self._broker.authorizer) is not None

    async def load(self) -> None:
        """Replace all ACLs by those of the store, if the authorizer uses ACLs."""
        if self.enabled:
            await self._acls.prepare()
            self._rules().replace(await self._acls.all())

    async def read(self, resources: "Iterable[Resource]") -> None:
        """Read the ACLs of some resource patterns from the store, and replace those in force."""
        for resource, entries in (await self._acls.of(resources)).items():
            self._rules().put(resource, entries)

    def matching(self, wanted: AclFilter) -> list[AclBinding]:
        """Return the bindings known here that match a filter."""
        return self._rules().matching(wanted)

    async def add(self, bindings: Sequence[AclBinding]) -> list[ApiError | None]:
        """Add bindings, effective here on return; return the outcomes in the same order."""
        return await carried_on(self._add(bindings))

    async def _add(self, bindings: Sequence[AclBinding]) -> list[ApiError | None]:
        of: dict[Resource, Entries] = {}
        outcomes: dict[Resource, ApiError | None] = {}
        for resource, entry in bindings:
            if acl_znodes.is_node_name(resource.name):
                of[resource] = of.get(resource, frozenset()) | {entry}
            else:
                outcomes[resource] = _no_node_name(resource.name)
        async with self._change:
            for resource, new in of.items():
                found = await self._altered(resource, lambda before, new=new: before | new)  # type: ignore[misc]
                outcomes[resource] = found if isinstance(found, ApiError) else None
        return [outcomes[binding.resource] for binding in bindings]

    async def remove(self, filters: Sequence[AclFilter]) -> list[list[AclBinding] | ApiError]:
        """Remove the bindings that match a filter; return for each filter what it removed."""
        return await carried_on(self._remove(filters))

    async def _remove(self, filters: Sequence[AclFilter]) -> list[list[AclBinding] | ApiError]:
        removed: list[AclBinding] = []
        failed: dict[Resource, ApiError] = {}
        async with self._change:
            for resource in self._possible(filters):

                def left(before: Entries, resource: Resource = resource) -> Entries:
                    return frozenset(
                        entry
                        for entry in before
                        if not any(
                            wanted.matches(AclBinding(resource, entry)) for wanted in filters
                        )
                    )

                found = await self._altered(resource, left)
                if isinstance(found, ApiError):
                    failed[resource] = found
                else:
                    gone = found.before - found.now
                    removed += [AclBinding(resource, entry) for entry in sorted(gone)]
        return [_outcome(wanted, removed, failed) for wanted in filters]

    def _possible(self, filters: Sequence[AclFilter]) -> dict[Resource, None]:
        """Return the resource patterns that may match: known ones, and those named by filters."""
        named = [
            Resource(wanted.kind, wanted.name, wanted.pattern)
            for wanted in filters
            if wanted.name is not None
            and acl_znodes.is_node_name(wanted.name)
            and wanted.pattern in acl_znodes.ROOT_OF
            and wanted.kind in _KINDS
        ]
        known = {binding.resource for wanted in filters for binding in self.matching(wanted)}
        return dict.fromkeys([*named, *sorted(known)])

    async def _altered(
        self, resource: Resource, change: Callable[[Entries], Entries]
    ) -> Changed | ApiError:
        try:
            changed = await self._acls.change(resource, change)
        except ApiError as error:
            return error
        except StoreError as error:
            return store_failed(error)
        except BadPayload as error:
            return ApiError(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"metadata store: mend or delete {error}"
            )
        self._rules().put(resource, changed.now)
        return changed

    def _rules(self) -> AclRules:
        rules = acl_rules_of(self._broker.authorizer)
        if rules is None:
            raise ApiError(
                ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker."
            )
        return rules


_KINDS = frozenset(acl_znodes.KINDS.values())


def _no_node_name(name: str) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_REQUEST,
        f"no ACL can be of the resource name {name[:100]!r}: it has a slash or a control character,"
        " or is dots alone; a prefix before that can be",
    )


def _outcome(
    wanted: AclFilter, removed: Sequence[AclBinding], failed: dict[Resource, ApiError]
) -> list[AclBinding] | ApiError:
    for resource, error in failed.items():
        if wanted.matches_resource(resource):
            return error
    return [binding for binding in removed if wanted.matches(binding)]


def noticed_changes(
    broker: Broker, store: Store, acls: AclSettings, change: asyncio.Lock
) -> NoticedChanges[Resource]:
    """Return the watch for ACLs that other brokers change; inactive if ACLs are not used."""

    async def read(told: "Iterable[Resource]") -> None:
        await acls.read(told)
        for resource in told:
            _logger.info("ACLs of %s were altered", resource)

    notices = [
        Notices(store, acl_znodes.CHANGES_OF[pattern], decode, broker.clock)
        for pattern, decode in (
            (PatternType.LITERAL, acl_znodes.decode_literal_change),
            (PatternType.PREFIXED, acl_znodes.decode_prefixed_change),
        )
    ]
    failing = "ACLs changed elsewhere are not applied until the next change or a restart"
    return NoticedChanges(store, notices, read, change, failing, lambda: acls.enabled)
