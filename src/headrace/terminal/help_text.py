"""The layout of `--help`: the description as written, each example a shell line of its own."""

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, ConsoleOptions

EXAMPLES = "For example:"
_BETWEEN = re.compile(r"; (?=(?:[^']*'[^']*')*[^']*$)")
"""The separator of examples, outside of quotes."""
_LABELLED = re.compile(r"(?P<label>[a-z][a-z ]*): (?P<command>.+)")


def examples(text: str) -> "Iterator[str]":
    """Yield the examples of a help text, one command per line, with a label as its comment."""
    for part in _BETWEEN.split(" ".join(text.split())):
        labelled = _LABELLED.fullmatch(part)
        yield part if labelled is None else f"{labelled['command']}  # {labelled['label']}"


class HelpText:
    """Cyclopts' help, but with the text above the panels as it is: no markup, no wrapping.

    Markup would swallow characters of regular expressions. Long lines are wrapped by the terminal,
    so that an example copied from it is one line.
    """

    def __call__(self, console: "Console", options: "ConsoleOptions", panel: Any) -> None:  # noqa: ANN401 - cyclopts'
        """Print a panel of commands or parameters."""
        _usual()(console, options, panel)

    def render_usage(self, console: "Console", options: "ConsoleOptions", usage: Any) -> None:  # noqa: ANN401 - cyclopts'
        """Print the usage line."""
        _usual().render_usage(console, options, usage)

    def render_description(
        self,
        console: "Console",
        options: "ConsoleOptions",
        description: Any,  # noqa: ANN401 - cyclopts'
    ) -> None:
        """Print the command's description, and its examples at the end."""
        from rich.text import Text

        for paragraph in description.primary_renderable.plain.strip().split("\n\n"):
            text, example, commands = " ".join(paragraph.split()).partition(EXAMPLES)
            if text.strip():
                console.print(Text(text.strip()), end="\n\n" if example else "\n")
            if example:
                console.print(Text(EXAMPLES))
                for line in examples(commands):
                    console.print(Text(f"  {line}"), soft_wrap=True)
            console.print()


def _usual() -> Any:  # noqa: ANN401 - cyclopts'
    from cyclopts.help import DefaultFormatter

    return DefaultFormatter()
