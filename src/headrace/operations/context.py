"""The broker that an operation runs on and its caller: permissions, and audit lines of changes."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from headrace.model.errors import ApiError, ErrorCode
from headrace.operations.audit import tell_change
from headrace.operations.permissions import AdminOperation, Caller, permitted, require
from headrace.security.authorizer import CLUSTER_NAME

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.cluster.controller_port import ControllerPort
    from headrace.coordination.coordinators import Coordinators


class OperationContext(NamedTuple):
    """The dependencies of one call of an operation."""

    broker: "Broker"
    controller: "ControllerPort"
    coordinators: "Coordinators"
    caller: Caller

    def permits(
        self, operation: AdminOperation, name: str = CLUSTER_NAME, *, told: bool = True
    ) -> bool:
        """Return whether the caller may do `operation` to a resource; `told`: audit a refusal."""
        return permitted(self.broker, self.caller, operation, name, told=told)

    def require(self, operation: AdminOperation, name: str = CLUSTER_NAME) -> None:
        """Raise ApiError where the caller may not do `operation` to a resource."""
        require(self.broker, self.caller, operation, name)

    def refused(self, operation: AdminOperation, names: Iterable[str]) -> frozenset[str]:
        """Return those of the names that the caller may not do `operation` to."""
        if self.broker.authorizer.allows_all:
            return frozenset()
        return frozenset(name for name in frozenset(names) if not self.permits(operation, name))

    def changed(self, error: ApiError | ErrorCode | None, detail: Mapping[str, object]) -> None:
        """Write the audit line of one change, or of its error."""
        code = error.code if isinstance(error, ApiError) else error or ErrorCode.NONE
        tell_change(self.broker.audit, self.caller, code, detail)
