"""Draw docs/images/session.svg: a terminal in which the README's first minute is really run.

python tools/gen_session.py     # or: make session

The commands run in a fresh directory, on a terminal, against a broker of their own; what they print
is what is drawn, colours included. Port 9092 must be free, or namespaces allowed (`unshare`).
"""

import io
import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "images" / "session.svg"
COLUMNS = 108
SERVE = "headrace serve"
STARTED = "Ctrl-C"
COMMANDS = (
    "headrace topic create orders --partitions 3",
    "seq 10000 | sed 's/.*/customer &,order &/' | headrace produce orders -K ,",
    "headrace consume orders --from-beginning -n 3 -f '%t/%p at %o: %k, %v\\n'",
    "headrace consume orders -g billing --from-beginning -n 9900 > /dev/null",
    "headrace group describe billing",
)
SECONDS_MAX = 120.0
FONTS = re.compile(r"\s*@font-face \{\{.*?\n\s*\}\}", re.DOTALL)
"""Where rich would have a viewer fetch its font: the terminal's own does."""


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, command: str, place: str, environ: dict[str, str]) -> None:
        """Start it."""
        self._master, theirs = pty.openpty()
        self.process = subprocess.Popen(
            ["bash", "-c", command], cwd=place, env=environ, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
        )  # fmt: skip
        os.close(theirs)

    def read(self, until: str | None = None) -> str:
        """Return what it prints, to its end or to the line that has `until`."""
        read, deadline = b"", time.monotonic() + SECONDS_MAX
        while time.monotonic() < deadline:
            if until is not None and until in read.decode(errors="replace"):
                break
            if not select.select([self._master], [], [], 0.3)[0]:
                continue
            try:
                more = os.read(self._master, 65536)
            except OSError:  # so Linux says that the other side has ended
                break
            if not more:
                break
            read += more
        else:
            raise SystemExit(f"did not end in {SECONDS_MAX:g} s:\n{read.decode(errors='replace')}")
        return read.decode(errors="replace").replace("\r\n", "\n")


def record() -> str:
    """Run the session; return it with the prompts and colours that a terminal shows."""
    environ = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    environ |= {
        "PATH": f"{ROOT / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "TERM": "xterm-256color",
        "COLUMNS": str(COLUMNS),
    }
    shown = []
    with tempfile.TemporaryDirectory(prefix="headrace-session-") as place:
        broker = Terminal(SERVE, place, environ)
        try:
            shown.append(_prompt(f"{SERVE} &") + broker.read(STARTED).replace(place, "~"))
            for command in COMMANDS:
                terminal = Terminal(command, place, environ)
                shown.append(_prompt(command) + _last_drawn(terminal.read()))
                if terminal.process.wait():
                    raise SystemExit(f"{command} failed:\n{shown[-1]}")
        finally:
            os.killpg(broker.process.pid, signal.SIGINT)
            broker.process.wait()
    return "\n".join(part.rstrip() + "\n" for part in shown)


def _prompt(command: str) -> str:
    return f"\x1b[1;32m$\x1b[0m \x1b[1m{command}\x1b[0m\n"


def _last_drawn(text: str) -> str:
    """Return each line as it stood last: a progress bar draws itself over and over."""
    plain = re.sub(r"\x1b\[(?:\?\d+[hl]|\d*[AJKG])", "", text)
    return "".join(line.rsplit("\r", 1)[-1] for line in plain.splitlines(keepends=True))


def main() -> int:
    """Run and draw."""
    if "--here" not in sys.argv[1:]:
        sys.path.insert(0, str(ROOT))
        from tests.chaos.namespaces import NoNamespaces, enclosed

        own = 'ip link set lo up && exec "$@"'
        again = ["sh", "-c", own, "sh", sys.executable, __file__, "--here"]
        try:
            return subprocess.run(enclosed(again), check=False).returncode
        except NoNamespaces as error:
            print(f"without namespaces ({error}): port 9092 must be free", file=sys.stderr)
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(record()), soft_wrap=False)
    image = console.export_svg(title="headrace", code_format=FONTS.sub("", CONSOLE_SVG_FORMAT))
    TARGET.write_text(image, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
