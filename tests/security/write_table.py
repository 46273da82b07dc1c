"""Print the permission table, and write it into tests/security/README.md.

    python -m tests.security.write_table [--check]

`--check` prints only, with status 1 where README has another one.
"""

import re
import sys
from pathlib import Path

from tests.support.security.permission_table import print_table

README = Path(__file__).parent / "README.md"
_TABLE = re.compile(r"(?<=<!-- table -->\n).*(?=<!-- end of table -->)", re.DOTALL)


def main() -> int:
    """The exit status."""
    table, text = print_table(), README.read_text()
    print(table, end="")
    if "--check" in sys.argv:
        return int(table not in text)
    README.write_text(_TABLE.sub(lambda _: table, text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
