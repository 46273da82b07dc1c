"""Run one page's blocks in order: `python -m tests.docs.page [--quick] PAGE`.

Status 1 where a block did not do what the page says. `python -m tests.docs` calls it in namespaces
of its own, where ports of the loopback are free and nothing outlives the page.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from tests.docs.blocks import Block, Page, PageError, read
from tests.docs.compare import missing
from tests.docs.processes import ENVIRONMENT, ROOT, Ran, Reader

if TYPE_CHECKING:
    from collections.abc import Callable

OUTPUT_LINES_MAX = 40
START_SECONDS_MAX = 60.0
SHELLS = {"bash", "sh", "console"}
BROKER = "headrace serve"
CLUSTER = "headrace dev --brokers 3"
STARTED = "Ctrl-C ends it."
CHECK_PROPERTIES = """
import sys
from headrace.config.broker import load
_, warnings = load(sys.stdin.read())
sys.exit("\\n".join(warnings) or 0)
"""


class Failed(Exception):
    """A block did not do what the page says; says what."""


class Run:
    """One page, run by one reader."""

    def __init__(self, page: Page, reader: Reader, left_out: frozenset[str]) -> None:
        """`left_out`: options of marks, `slow` and `extra`, whose blocks are not run."""
        self._page = page
        self._reader = reader
        self._left_out = left_out
        self._last: Ran | None = None
        self.counts = {"run": 0, "compared": 0, "shown": 0, "left out": 0}

    def blocks(self) -> list[str]:
        """Run all blocks; return what is wrong, a report for each."""
        return [report for block in self._page.blocks if (report := self._report(block))]

    def _report(self, block: Block) -> str | None:
        try:
            self._step(block)
        except Failed as error:
            print(f"{block.place}: {error}", flush=True)
            return f"{block.place}: {error}"
        return None

    def _step(self, block: Block) -> None:
        mark = block.mark
        if "replace" in mark.options:
            old, new = mark.options["replace"].split("=>")
            place = str(self._reader.place)
            block = block._replace(text=block.text.replace(old, new.replace("$PWD", place)))
        if self._left_out & mark.options.keys():
            self.counts["left out"] += 1
            self._last = None
        elif mark.action == "shown":
            self.counts["shown"] += 1
        elif mark.action == "output":
            self._compare(block)
        elif mark.action == "file":
            self._write(block, mark.words[0])
        else:
            self.counts["run"] += mark.action != "setup"
            self._run(block)

    def _compare(self, block: Block) -> None:
        if self._last is None:  # what prints it was left out
            self.counts["left out"] += 1
            return
        self.counts["compared"] += 1
        any_number = block.mark.options.get("numbers") == "any"
        line = missing(block.text, self._last.output, any_number=any_number)
        if line is not None:
            raise Failed(f"not printed: {line}\n{_cut(self._last.output)}")

    def _write(self, block: Block, name: str) -> None:
        path = self._reader.place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text)
        self.counts["run"] += 1
        if block.language in {"json", "properties", "yaml"}:
            self._judge(block)

    def _run(self, block: Block) -> None:
        options = block.mark.options
        if "file" in options:
            (self._reader.place / options["file"]).write_text(block.text)
        if block.language == "console":
            return self._console(block)
        if block.mark.action == "background":
            ran = self._reader.behind(block.text, options["until"], block.mark.timeout_s)
        elif block.language in SHELLS:
            ran = self._shell(block, block.text)
        elif block.language == "python":
            ran = self._reader.python(block.text, block.page, block.line, block.mark.timeout_s)
        elif block.language == "sql":
            ran = self._shell(block, f"headrace query <<'SQL'\n{block.text}SQL")
        else:
            return self._judge(block)
        self._last = ran
        return _expect(block, block.text, ran)

    def _shell(self, block: Block, text: str) -> Ran:
        return self._reader.shell(text, block.mark.timeout_s, block.mark.options.get("interrupt"))

    def _console(self, block: Block) -> None:
        """Run each command behind `$ `, and compare the lines below it."""
        for part in block.text.removeprefix("$ ").split("\n$ "):
            command, _, expected = part.partition("\n")
            self._last = ran = self._shell(block, command)
            _expect(block, command, ran)
            line = missing(expected, ran.output)
            if line is not None:
                raise Failed(f"$ {command}\nnot printed: {line}\n{_cut(ran.output)}")

    def _judge(self, block: Block) -> None:
        """Have a file's text read by what reads such files."""
        judges: dict[str, Callable[[str], object]] = {
            "json": json.loads,
            "yaml": lambda text: list(yaml.safe_load_all(text)),
            "properties": self._judge_properties,
        }
        if block.language not in judges:
            raise Failed(f"no way to run {block.language}: mark the block as shown, or as output")
        try:
            judges[block.language](block.text)
        except (ValueError, yaml.YAMLError) as error:
            raise Failed(f"no {block.language}: {error}\n{block.text}") from None

    def _judge_properties(self, text: str) -> None:
        done = subprocess.run(
            ["python", "-c", CHECK_PROPERTIES], input=text, capture_output=True, text=True,
            env=self._reader.environ, cwd=self._reader.place, check=False,
        )  # fmt: skip
        if done.returncode:
            raise ValueError(done.stderr.strip().splitlines()[-1])


def _expect(block: Block, command: str, ran: Ran) -> None:
    """Failed where it did not end as it should."""
    wanted = int(block.mark.options.get("exit", "0"))
    if ran.exit_code == wanted:
        return
    waited = block.mark.options.get("until") or block.mark.options.get("interrupt")
    if ran.exit_code is None:
        within = f"in {block.mark.timeout_s:g} s"
        told = f"did not print {waited!r} {within}" if waited else f"did not end {within}"
    else:
        told = f"ended with status {ran.exit_code}, not {wanted}"
    shown = "".join(f"    > {line}\n" for line in command.rstrip().splitlines())
    raise Failed(f"{block.language} {told}\n{shown}{_cut(ran.output)}")


def _cut(output: str) -> str:
    lines = output.rstrip().splitlines()
    more = [f"… {len(lines) - OUTPUT_LINES_MAX} lines before"] * (len(lines) > OUTPUT_LINES_MAX)
    return "".join(f"    | {line}\n" for line in more + lines[-OUTPUT_LINES_MAX:])


def copy_tree(place: Path) -> None:
    """Copy the tree without what is ignored."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in listed.splitlines():
        if (ROOT / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, place / name)


def _prepare(page: Page, reader: Reader, undo: ExitStack, left_out: frozenset[str]) -> None:
    """Start what the page needs. Failed where it does not start."""
    if "checkout" in page.services:
        if reader.environment == ENVIRONMENT:
            copy_tree(reader.place)
        (reader.place / ".venv").symlink_to(reader.environment)
    if "zookeeper" in page.services and "slow" not in left_out:
        from tests.docs.zookeeper import running

        undo.enter_context(running(reader.place.parent / "zookeeper"))
    for service, command in (("broker", BROKER), ("cluster", CLUSTER)):
        if service in page.services:
            ran = reader.behind(command, STARTED, START_SECONDS_MAX)
            if ran.exit_code != 0:
                raise Failed(f"`{command}` did not start\n{_cut(ran.output)}")


def run(
    name: str,
    text: str,
    *,
    left_out: frozenset[str] = frozenset(),
    environment: Path = ENVIRONMENT,
) -> list[str]:
    """Run a page in a fresh directory; print how it went, return what is wrong.

    The reader has the commands of `environment`; one other than the checkout's has no copy of the
    tree.
    """
    try:
        page = read(name, text)
    except PageError as error:
        print(error)
        return [str(error)]
    with ExitStack() as undo:
        root = Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="headrace-docs-")))
        place = root / "reader"
        place.mkdir()
        reader = Reader(place, environment)
        undo.callback(reader.close)
        runner = Run(page, reader, left_out)
        try:
            if any(left_out.isdisjoint(block.mark.options) for block in page.blocks):
                _prepare(page, reader, undo, left_out)
            wrong = runner.blocks()
        except Failed as error:
            print(f"{name}:1: {error}")
            return [f"{name}:1: {error}"]
    counts = ", ".join(f"{count} {what}" for what, count in runner.counts.items() if count)
    print(f"{name}: {counts or 'no blocks'}{f', {len(wrong)} WRONG' if wrong else ''}", flush=True)
    return wrong


def main() -> int:
    """Run the page that is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path, help="from the repository's root, or anywhere")
    parser.add_argument("--quick", action="store_true", help="without the slow sets")
    parser.add_argument("--base", action="store_true", help="without what needs an extra, too")
    parser.add_argument("--environment", type=Path, default=ENVIRONMENT, help="a reader's own")
    arguments = parser.parse_args()
    left_out = {"slow"} if arguments.quick else {"slow", "extra"} if arguments.base else ()
    path = ROOT / arguments.page
    name = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
    text = path.read_text("utf-8")
    return bool(
        run(name, text, left_out=frozenset(left_out), environment=arguments.environment.absolute())
    )


if __name__ == "__main__":
    sys.exit(main())
