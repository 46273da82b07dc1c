"""A fault found in the syntax tree, and its name, which knows no line."""

from dataclasses import dataclass

SOURCE = "src/headrace/"


@dataclass(frozen=True, slots=True)
class Drawn:
    """Lines `line`..`last_line` of `file`, old and new, and what was changed in them."""

    file: str
    function: str
    kind: str
    label: str
    line: int
    last_line: int
    old: str
    new: str
    run: tuple[int, int]
    """First and last line of the statement: a test that runs one of them runs the fault."""
    at_import: bool = False
    """Whether it is run when its file is imported, and not again."""

    @property
    def symbol(self) -> str:
        """The file below `src/headrace` and the function or class in it."""
        return f"{self.file.removeprefix(SOURCE)}:{self.function}"

    @property
    def key(self) -> tuple[str, str, str]:
        """Its name in the lists: symbol, operator and label."""
        return self.symbol, self.kind, self.label

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.kind}"

    def diff(self) -> str:
        """The old lines and the new ones, marked like a diff."""
        lines = [f"-{line}" for line in self.old.splitlines()]
        return "\n".join(lines + [f"+{line}" for line in self.new.splitlines()])


def with_drawn(text: str, fault: Drawn) -> str:
    """`text` with the lines of `fault` replaced."""
    lines = text.split("\n")
    lines[fault.line - 1 : fault.last_line] = [fault.new]
    return "\n".join(lines)
