"""The steps of a repair, printed and recorded."""

from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.ports.disk import Disk


@dataclass(slots=True)
class Mending:
    """A running repair: its options, and the steps taken."""

    disk: Disk
    truncate: bool = False
    """Cut the log before the first corrupt batch, instead of leaving a gap in its place."""
    dry_run: bool = False
    """Print the steps without doing them."""
    say: Callable[[str], None] = print
    steps: list[str] = field(default_factory=list)
    unmended: list[str] = field(default_factory=list)
    """Damage that cannot be repaired, as the records no longer exist."""

    def step(self, path: str, text: str) -> bool:
        """Record and print a step on `path`; return whether to do it."""
        line = f"{path}: {text}"
        self.steps.append(line)
        self.say(line)
        return not self.dry_run

    def cannot(self, path: str, text: str) -> None:
        """Record and print damage that is left as it is."""
        line = f"{path}: {text}"
        self.unmended.append(line)
        self.say(line)

    def move_aside(self, path: str) -> str:
        """Rename a file to `….damaged`, which no broker opens; return the new path."""
        target, number = f"{path}.damaged", 1
        while self.disk.exists(target):
            number += 1
            target = f"{path}.{number}.damaged"
        self.disk.rename(path, target)
        self.disk.sync_directory(path.rpartition("/")[0])
        return target
