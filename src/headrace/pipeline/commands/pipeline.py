"""`headrace pipeline`: check and run declared pipelines on Spark."""

from pathlib import Path

from cyclopts import App, Parameter

from headrace.pipeline.commands.diff import diff
from headrace.pipeline.commands.init import init
from headrace.pipeline.commands.plan import plan
from headrace.pipeline.commands.project_tests import test
from headrace.pipeline.commands.projects import ProjectProfile, project_in
from headrace.pipeline.commands.replay import replay
from headrace.pipeline.commands.run import run
from headrace.pipeline.commands.status import status
from headrace.pipeline.commands.stop import stop
from headrace.terminal.failure import EXIT_USAGE, check_installed
from headrace.terminal.output import print_json, print_line

app = App(
    name="pipeline",
    help="Check and run declared pipelines on Spark.",
    default_parameter=Parameter(show_default=False, negative=()),
)
app.command(diff)
app.command(init)
app.command(plan)
app.command(test)
app.command(replay)
app.command(run)
app.command(status)
app.command(stop)
app.command(
    "headrace.pipeline.commands.quarantine:app",
    name="quarantine",
    help="List, show, replay and drop records that pipelines have refused.",
)


@app.command
def validate(
    directory: Path = Path(),
    *,
    profile: ProjectProfile = None,
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

    result = check_project(project_in(directory, profile))
    if json:
        print_json(result.to_json())
    else:
        print_line(result.summary)
        for finding in result.findings:
            print_line(f"  {finding}")
    return EXIT_USAGE if result.findings else 0
