"""How many examples property tests try."""

import os

QUICK = "HEADRACE_QUICK"
"""The variable that `make check` sets, for a third of the examples; `make test` tries all."""
EXAMPLES_MIN = 5


def examples(count: int) -> int:
    """Return `count`; in `make check` a third of it, but no fewer than 5 if there are so many."""
    return max(count // 3, min(count, EXAMPLES_MIN)) if os.environ.get(QUICK) else count
