"""Tests of the command's parts begin as commands do."""

from tests.support.processes.cli_kit import remarks_are_text

__all__ = ["remarks_are_text"]
