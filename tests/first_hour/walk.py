"""Run README's blocks inside a bare root, and write down what a reader sees."""

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.docs.blocks import Block, read
from tests.docs.page import copy_tree
from tests.docs.processes import ROOT, Ran, Reader

HOME = "/home/reader"
TREE = f"{HOME}/headrace"
OURS = "make first-hour"
"""How the reason of a block begins that `make docs-test` leaves to this walk."""
BEFORE = "apt-get update -q && apt-get install -q -y --no-install-recommends python3 make"
"""What README says that is needed."""
BLOCK_SECONDS_MAX = 3600.0


class Newcomer(Reader):
    """A reader who lives in the root."""

    def __init__(self, root: Path) -> None:
        super().__init__(root / TREE.lstrip("/"))
        self._root = root
        passed = {
            name: value
            for name, value in os.environ.items()
            if name.startswith("PIP_")
            and not (Path(value).is_absolute() and _is_missing(root, value))
        }
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        self.environ: Mapping[str, str] = passed | {
            "PATH": path, "HOME": HOME, "TERM": "dumb", "COLUMNS": "100", "LANG": "C.UTF-8",
        }  # fmt: skip

    def command(self, text: str) -> Sequence[str]:
        """Enter the root, and run the commands in the tree."""
        script = f"cd {TREE} && {text}"
        return ["chroot", str(self._root), "bash", "-euo", "pipefail", "-c", script]

    def block(self, block: Block) -> Ran:
        """Run a block as README shows it."""
        options = block.mark.options
        if block.mark.action == "background":
            return self.behind(block.text, options["until"], BLOCK_SECONDS_MAX)
        if block.language == "python":
            (self.place / "reader.py").write_text(block.text)
            return self.shell(".venv/bin/python reader.py", BLOCK_SECONDS_MAX)
        return self.shell(block.text, BLOCK_SECONDS_MAX)


def _is_missing(root: Path, path: str) -> bool:
    """Whether a path of this machine is none of the reader's."""
    return not (root / path.lstrip("/")).exists()


def wanted(block: Block) -> bool:
    """Whether a newcomer runs this block."""
    if block.mark.action == "shown":
        return block.mark.options["because"].startswith(OURS)
    return block.mark.action in {"run", "background", "file"}


def walk(root: Path, transcript: Path) -> int:
    """Run all blocks; how many failed."""
    for name in ("proc", "dev", "dev/shm"):
        (root / name).mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "proc", "proc", root / "proc"], check=True)
    subprocess.run(["mount", "--rbind", "/dev", root / "dev"], check=True)
    tree = root / TREE.lstrip("/")
    tree.mkdir(parents=True)
    copy_tree(tree)
    newcomer = Newcomer(root)
    failed = 0
    with transcript.open("w") as out:
        out.write(f"$ {BEFORE}\n")
        prepared = newcomer.shell(BEFORE, BLOCK_SECONDS_MAX)
        out.write(f"{prepared.output[-400:]}[ended with {prepared.exit_code}]\n\n")
        page = read("README.md", (ROOT / "README.md").read_text("utf-8"))
        for block in filter(wanted, page.blocks):
            out.write("".join(f"$ {line}\n" for line in block.text.splitlines()))
            out.flush()
            if block.mark.action == "file":
                (tree / block.mark.words[0]).write_text(block.text)
                out.write(f"[{block.place} is written to {block.mark.words[0]}]\n\n")
                continue
            began = time.monotonic()
            ran = newcomer.block(block)
            failed += ran.exit_code != 0
            seconds = time.monotonic() - began
            out.write(
                f"{ran.output}[{block.place} ended with {ran.exit_code}, {seconds:.1f} s]\n\n"
            )
            out.flush()
        newcomer.close()
    print(f"first-hour: {failed} blocks failed; read {transcript}")
    return failed


if __name__ == "__main__":
    sys.exit(bool(walk(Path(sys.argv[1]), Path(sys.argv[2]))))
