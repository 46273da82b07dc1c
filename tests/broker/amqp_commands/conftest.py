"""Asking a command of the broker that a file's own fixture `broker` has."""

from tests.support.processes.cli_kit import (
    asked,
    clients_that_tests_forget,
    remarks_are_text,
    says,
)

__all__ = ["asked", "clients_that_tests_forget", "remarks_are_text", "says"]
