"""Exit codes of `headrace pipeline`, on top of those that all commands have (0 to 4, 130)."""

DECISION_NEEDED = 10
"""A changed pipeline needs a decision before it runs."""
CHECK_FAILED = 11
"""A check or a test failed, or values were refused."""
DATA_LOST = 12
"""Records that were not read yet no longer exist."""
HELD = 13
"""Another run holds the pipeline."""
SCHEMA_MOVED = 14
"""The topic's schema changed, and the running query cannot read it."""
