"""Write the permission table into tests/security/README.md: python -m tests.security.write_table."""

import re
from pathlib import Path

from tests.support.permission_table import print_table

README = Path(__file__).parent / "README.md"
_TABLE = re.compile(r"(?<=<!-- table -->\n).*(?=<!-- end of table -->)", re.DOTALL)

if __name__ == "__main__":
    README.write_text(_TABLE.sub(lambda _: print_table(), README.read_text()))
    print(print_table(), end="")
