"""`headrace pipeline`: check the declarations of a pipeline on Spark."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from headrace.terminal.failure import EXIT_NOT_FOUND, EXIT_USAGE, CommandError, check_installed
from headrace.terminal.output import print_json, print_line

app = App(
    name="pipeline",
    help="Check the declarations of a pipeline on Spark; work with the records that it refused.",
    default_parameter=Parameter(show_default=False, negative=()),
)
app.command(
    "headrace.cli.pipeline.quarantine:app",
    name="quarantine",
    help="List, show, replay and drop records that pipelines have refused.",
)


@app.command
def validate(
    directory: Path = Path(),
    *,
    profile: Annotated[str | None, Parameter(("--profile", "-p"))] = None,
    json: bool = False,
) -> int:
    """Check a pipeline's files without data and without a broker.

    Tables, views, sinks, checks, schemas and SQL are checked by Spark on streams without rows.
    Exit codes: 0 sound, 2 errors, 4 no pipeline.toml. For example: headrace pipeline validate shop

    Parameters
    ----------
    directory
        The project's directory, which has pipeline.toml.
    profile
        The profile in pipeline.toml whose settings are used.
    json
        Print a JSON object.
    """
    check_installed("pyspark", "pyarrow")
    from headrace.pipeline.checked import check_project
    from headrace.pipeline.declarations import DeclarationError
    from headrace.pipeline.project import FILE, load_project

    if not (directory / FILE).is_file():
        raise CommandError(f"there is no {FILE} in {directory.absolute()}", EXIT_NOT_FOUND)
    try:
        result = check_project(load_project(directory.absolute(), profile))
    except DeclarationError as error:
        raise CommandError(str(error), EXIT_USAGE) from None
    if json:
        print_json(result.to_json())
    else:
        print_line(result.summary)
        for finding in result.findings:
            print_line(f"  {finding}")
    return EXIT_USAGE if result.findings else 0
