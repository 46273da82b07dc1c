"""The definitions by which a pipeline's checkpoints were written: `_pipeline/applied.json`.

A run writes the file before its first query starts. If it is lost, no row is: each flow with a
checkpoint then needs a decision, because nothing is known to compare it with.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace.pipeline.declarations import DeclarationError
from headrace.pipeline.plan.flow_print import FlowPrint
from headrace.posix.disk import RealDisk

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_FORMAT = 1


@dataclass(frozen=True)
class AppliedFlow:
    """The definition of a flow that a run has started."""

    print: FlowPrint
    active: bool = True
    """Whether the newest run had the flow."""


@dataclass(frozen=True)
class Applied:
    """The definitions of all flows of a pipeline that runs have started."""

    code: str = ""
    """Digest of the code that all active flows were printed from; "": of no code."""
    flows: Mapping[str, AppliedFlow] | None = None

    def get(self, flow: str) -> AppliedFlow | None:
        """Return what is known of a flow."""
        return (self.flows or {}).get(flow)

    def started(self, code: str, prints: Mapping[str, FlowPrint]) -> Applied:
        """Return the definitions after a run has started with `prints`."""
        gone = {name: replace(flow, active=False) for name, flow in (self.flows or {}).items()}
        return Applied(code, {**gone, **{name: AppliedFlow(each) for name, each in prints.items()}})

    def accepted(self, prints: Mapping[str, FlowPrint]) -> Applied:
        """Return the definitions after the changes of some flows were accepted."""
        new = {name: AppliedFlow(each) for name, each in prints.items()}
        return Applied("", {**(self.flows or {}), **new})


def read_applied(path: Path) -> Applied:
    """Read the file; nothing is known if it does not exist. DeclarationError if it is damaged."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["format"] != _FORMAT:
            raise DeclarationError(
                f"{path} has format {found['format']}, written by a newer version of headrace: "
                "run that version"
            )
        flows = {
            name: AppliedFlow(FlowPrint.from_json(each["print"]), each["active"])
            for name, each in found["flows"].items()
        }
        return Applied(found["code"], flows)
    except FileNotFoundError:
        return Applied()
    except DeclarationError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DeclarationError(
            f"{path} is damaged: delete it; each flow with a checkpoint then needs "
            "`headrace pipeline plan --accept`"
        ) from None


def write_applied(path: Path, applied: Applied) -> None:
    """Replace the file, atomically and durably. OSError."""
    content = {
        "format": _FORMAT,
        "code": applied.code,
        "flows": {
            name: {
                "active": flow.active,
                "digest": flow.print.digest,
                "print": flow.print.to_json(),
            }
            for name, flow in (applied.flows or {}).items()
        },
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    RealDisk(None).replace(str(path), json.dumps(content, indent=1).encode())
