"""Checkouts of ours: the one we run in, and another whose figures are to be compared with it.

What is measured in the measuring process itself (a scan, a flush, a truncation) runs the checkout's
own `bench` in a process of its own, with its own interpreter, wherever two are compared. So both
are measured by the code that they brought, which is the same as long as the row is.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FIND = """
import importlib, importlib.util, json, sys
module, name = sys.argv[1:3]
there = importlib.util.find_spec(module) and importlib.import_module(module)
function = getattr(there, name, None)
if function is None:
    sys.exit(44)
"""
_CALL = f"""{_FIND}
found = function(*json.loads(sys.argv[3]))
print(json.dumps(list(found) if hasattr(found, "__next__") else found))
"""
_NOT_THERE_CODE = 44


class NotThereError(LookupError):
    """The checkout has no such measurement."""


@dataclass(frozen=True)
class Checkout:
    """A source tree with the environment it was installed into."""

    name: str
    root: Path
    python: Path

    @classmethod
    def at(cls, name: str, root: Path) -> "Checkout":
        """The checkout below `root`, which `make setup-dev` has been run in. ValueError: not."""
        root = root.resolve()
        python = root / ".venv" / "bin" / "python"
        for needed in (python, root / "bench" / "__main__.py"):
            if not needed.exists():
                raise ValueError(f"{needed} is missing: {root} is no checkout that was set up")
        return cls(name, root, python)

    def environment(self) -> dict[str, str]:
        """Ours, without what would lead an interpreter to another source tree."""
        return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def call(self, module: str, function: str, *arguments: object) -> Any:  # noqa: ANN401
        """Have `bench.<module>` call a function in a process of its own; what it returns, as JSON.

        An iterator's values come as a list. NotThereError: this checkout has no such function.
        """
        said = self._run(_CALL, module, function, json.dumps(arguments))
        return json.loads(said.splitlines()[-1])

    def has(self, module: str, function: str) -> bool:
        """Whether `bench.<module>` has a function, in a process of its own."""
        try:
            self._run(_FIND, module, function)
        except NotThereError:
            return False
        return True

    def _run(self, program: str, module: str, function: str, *arguments: str) -> str:
        done = subprocess.run(
            [str(self.python), "-c", program, f"bench.{module}", function, *arguments],
            cwd=self.root,
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == _NOT_THERE_CODE:
            raise NotThereError(f"{self.name} has no bench.{module}.{function}")
        if done.returncode:
            raise RuntimeError(f"bench.{module}.{function} failed:\n{done.stderr[-3000:]}")
        return done.stdout


HERE = Checkout("headrace", Path(__file__).parents[1], Path(sys.executable))
