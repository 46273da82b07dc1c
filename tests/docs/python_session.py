"""Python blocks of a page, one after the other in one process, as in a notebook.

A line of JSON on standard input has a block: `text`, `file` and `line`. What it prints goes to
standard output, the value of a last expression too; a line of JSON at descriptor 3 says that it
ended, with `exit`.
"""

import ast
import json
import os
import sys
import traceback


def _run(text: str, file: str, line: int, names: dict[str, object]) -> int:
    try:
        tree = ast.parse("\n" * (line - 1) + text, file)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, file, "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), file, "eval"), names)  # type: ignore[attr-defined]
            if value is not None:
                print(value)
    except BaseException:  # noqa: BLE001 - told to whoever runs the page, SystemExit too
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
    return 0


def main() -> None:
    """Run blocks until standard input ends."""
    names: dict[str, object] = {"__name__": "__main__"}
    with os.fdopen(3, "w") as answers:
        for request in sys.stdin:
            block = json.loads(request)
            code = _run(block["text"], block["file"], block["line"], names)
            print(json.dumps({"exit": code}), file=answers, flush=True)


if __name__ == "__main__":
    main()
