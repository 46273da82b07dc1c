"""The broker, controller and caller of one operation call, with its permission checks and audit."""

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
    """The dependencies of one operation call."""

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
        """Raise ApiError and audit a refusal if the caller may not do `operation` to a resource."""
        require(self.broker, self.caller, operation, name)

    def refused(self, operation: AdminOperation, names: Iterable[str]) -> frozenset[str]:
        """Return the resource names that the caller may not do `operation` to; each is audited."""
        if self.broker.authorizer.allows_all:
            return frozenset()
        return frozenset(name for name in frozenset(names) if not self.permits(operation, name))

    def changed(self, error: ApiError | ErrorCode | None, detail: Mapping[str, object]) -> None:
        """Write the audit line of one change, or of its failure."""
        code = error.code if isinstance(error, ApiError) else error or ErrorCode.NONE
        tell_change(self.broker.audit, self.caller, code, detail)
