"""Print the permission tables, and write them into tests/security/README.md.

    python -m tests.security.write_table [--check]

`--check` prints only, with status 1 where README has others.
"""

import re
import sys
from pathlib import Path

from tests.support.security.permission_table import print_table
from tests.support.security.remoting_table import print_remoting_table

README = Path(__file__).parent / "README.md"
_TABLE = r"(?<=<!-- {0} -->\n).*(?=<!-- end of {0} -->)"
_TABLES = {"table": print_table, "remoting table": print_remoting_table}


def main() -> int:
    """The exit status."""
    before = text = README.read_text()
    for name, made in _TABLES.items():
        table = made()
        print(table, end="")
        old = re.search(_TABLE.format(name), text, re.DOTALL)
        assert old is not None, name
        text = text[: old.start()] + table + text[old.end() :]
    if "--check" in sys.argv:
        return int(text != before)
    README.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
