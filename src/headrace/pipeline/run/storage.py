"""The places of a pipeline's tables and state below its storage directory.

<storage>/<table>/  <table>@<n>/                  tables, and their later versions
<storage>/_checkpoints/<target>/<flow>/<n>/       checkpoints, as Spark's pipelines have them
<storage>/_pipeline/applied.json                  the definitions that checkpoints were written by
<storage>/_pipeline/lock  profile  stop           the run that holds it, its mark, a stop request
<storage>/_pipeline/runs/<run>.jsonl  .log        events of a run, messages of Spark
<storage>/_pipeline/checks/<flow>/<n>/<batch>.json   counts of a batch's checks, until they are read
<storage>/_pipeline/refused/<flow>/<n>/<batch>.json  counts of a batch's refused records, likewise
<storage>/_pipeline/unknown_keys/<flow>/<n>/<batch>.<task>.json  keys that no column has, likewise
<storage>/_pipeline/newest.json                   newest times of flows with checks of freshness
<storage>/_pipeline/spool/                        refused records that are not published yet
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.pipeline.declarations import DeclarationError
from headrace.spark.durable import make_directories, replace_file
from headrace.spark.tables.options import local_path

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.pipeline.project import Project

OWN = "_pipeline"
CHECKPOINTS = "_checkpoints"


@dataclass(frozen=True)
class Storage:
    """A pipeline's storage directory, on a disk that driver and executors see at the same path."""

    root: Path

    @classmethod
    def of(cls, project: Project) -> Storage:
        """Return the storage of a project. OptionError if it is not a local directory."""
        return cls(local_path("storage", str(project.storage)))

    @property
    def own(self) -> Path:
        """The directory of the run's own files."""
        return self.root / OWN

    @property
    def lock(self) -> Path:
        """The file that a run holds locked."""
        return self.own / "lock"

    @property
    def mark(self) -> Path:
        """The file that names the pipeline and the profile that write here."""
        return self.own / "profile"

    @property
    def stop_request(self) -> Path:
        """The file by which another machine requests the end of a run."""
        return self.own / "stop"

    @property
    def runs(self) -> Path:
        """The directory of event logs."""
        return self.own / "runs"

    def checks(self, target: str, flow: str) -> Path:
        """Return the directory of the counts of checks of a flow's newest version."""
        return self.own / "checks" / flow / self.checkpoint(target, flow).name

    def refused(self, target: str, flow: str) -> Path:
        """Return the directory of the counts of refused records of a flow's newest version."""
        return self.own / "refused" / flow / self.checkpoint(target, flow).name

    def unknown_keys(self, target: str, flow: str) -> Path:
        """Return the directory of the counts of undeclared keys of a flow's newest version."""
        return self.own / "unknown_keys" / flow / self.checkpoint(target, flow).name

    @property
    def spool(self) -> Path:
        """The directory of refused records that are not published yet."""
        return self.own / "spool"

    @property
    def newest(self) -> Path:
        """The file with the newest times that flows with checks of freshness have written."""
        return self.own / "newest.json"

    @property
    def applied(self) -> Path:
        """The file with the definitions that the checkpoints were written by."""
        return self.own / "applied.json"

    def version(self, target: str) -> int:
        """Return the number of the newest version of a table or sink; the first is 0."""
        numbers = [
            int(each.name)
            for each in (self.root / CHECKPOINTS / target).glob("*/*")
            if each.name.isdigit()
        ]
        return max(numbers, default=0)

    def table(self, name: str) -> Path:
        """Return the directory of a table's newest version."""
        return self.table_of(name, self.version(name))

    def table_of(self, name: str, version: int) -> Path:
        """Return the directory of a version of a table."""
        return self.root / (f"{name}@{version}" if version else name)

    def tables(self) -> dict[str, Path]:
        """Return the directories of the newest versions of all tables that exist, by name."""
        names = sorted(each.name for each in (self.root / CHECKPOINTS).glob("*"))
        found = {name: self.table(name) for name in names}
        return {name: path for name, path in found.items() if path.is_dir()}

    def checkpoint(self, target: str, flow: str) -> Path:
        """Return the checkpoint of a flow into its target's newest version; it may not exist."""
        return self.checkpoint_of(target, flow, self.version(target))

    def checkpoint_of_flow(self, flow: str) -> Path:
        """Return the checkpoint of a flow, whatever it writes; a path that does not exist if it has
        none."""
        targets = sorted(each.parent.name for each in (self.root / CHECKPOINTS).glob(f"*/{flow}"))
        return self.checkpoint(targets[0] if targets else flow, flow)

    def checkpoint_of(self, target: str, flow: str, version: int) -> Path:
        """Return the checkpoint of a flow into a version of its target."""
        return self.root / CHECKPOINTS / target / flow / str(version)

    def claim(self, pipeline: str, profile: str | None) -> None:
        """Mark the storage as this pipeline's with this profile.

        DeclarationError if it has the mark of another pipeline or profile: a development run must
        not write production's tables. OSError.
        """
        own = {"pipeline": pipeline, "profile": profile}
        found = self.marked()
        if found is None:
            make_directories(self.own)
            replace_file(self.root, self.mark, json.dumps(own).encode() + b"\n")
        elif found != own:
            raise DeclarationError(
                f"{self.root} is written by {_named(found)}, and this run is of {_named(own)}: "
                "give this one a storage of its own in pipeline.toml"
            )

    def marked(self) -> dict[str, str | None] | None:
        """Return the pipeline and the profile of the mark; None if nothing was run here yet."""
        try:
            said = json.loads(self.mark.read_text(encoding="utf-8"))
            return {"pipeline": said["pipeline"], "profile": said["profile"]}
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            raise DeclarationError(
                f"{self.mark} is damaged: write the pipeline and the profile that own this storage "
                'into it, as {"pipeline": "shop", "profile": null}'
            ) from None


def _named(mark: dict[str, str | None]) -> str:
    profile = mark["profile"]
    return f"pipeline {mark['pipeline']} " + (
        f"with profile {profile}" if profile else "without a profile"
    )
