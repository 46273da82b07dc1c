"""`headrace completion`: print the completion script of a shell."""

from typing import Literal

from headrace.terminal.output import print_line


def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Print SHELL's completion script: source <(headrace completion bash).

    To install it for good: headrace --install-completion.
    """
    from headrace.cli.command_tree import app

    print_line(app.generate_completion(prog_name="headrace", shell=shell))
