"""The list of differences from RabbitMQ that are accepted, each with its reason."""

import csv
from pathlib import Path
from typing import NamedTuple

from tests.outside.amqp.management.compare import Difference
from tests.support.listed_differences import fits

GOLDEN = Path(__file__).parents[3] / "golden" / "rabbitmq-4.3.6"
MANAGEMENT, COMMANDS = GOLDEN / "management-differences.tsv", GOLDEN / "command-differences.tsv"
NOT_BUILT = "not built: step "
"""How the reason of a row begins that the step deletes."""


class Explained(NamedTuple):
    """A row of a list: patterns of a call and of a field, and the reason."""

    call: str
    field: str
    reason: str

    def matches(self, found: Difference) -> bool:
        """Whether this row explains a difference."""
        return fits(found.call, self.call) and fits(found.field, self.field)


def read_explained(path: Path) -> list[Explained]:
    """Return the rows of a list."""
    with path.open(encoding="utf-8", newline="") as table:
        rows = csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [Explained(**row) for row in rows]
