"""What a repair does, and says."""

from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.ports.disk import Disk


@dataclass(slots=True)
class Mending:
    """One repair under way: how it is to be done, and what it did."""

    disk: Disk
    truncate: bool = False
    """Cut the log before the first bad batch, instead of leaving a hole where that was."""
    dry_run: bool = False
    """Only say it."""
    say: Callable[[str], None] = print
    steps: list[str] = field(default_factory=list)
    unmended: list[str] = field(default_factory=list)
    """What cannot be mended: nobody has the records any more."""

    def step(self, path: str, text: str) -> bool:
        """Say what is done to `path`; returns whether to do it."""
        line = f"{path}: {text}"
        self.steps.append(line)
        self.say(line)
        return not self.dry_run

    def cannot(self, path: str, text: str) -> None:
        """Say what stays as it is."""
        line = f"{path}: {text}"
        self.unmended.append(line)
        self.say(line)

    def move_aside(self, path: str) -> str:
        """Rename a file to `….damaged`, which neither broker opens; the new path."""
        target, number = f"{path}.damaged", 1
        while self.disk.exists(target):
            number += 1
            target = f"{path}.{number}.damaged"
        self.disk.rename(path, target)
        self.disk.sync_directory(path.rpartition("/")[0])
        return target
