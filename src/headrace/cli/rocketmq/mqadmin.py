"""`headrace mqadmin`: RocketMQ's mqadmin, its verbs, options and output, without a Java process."""

import os
from typing import Annotated

from cyclopts import App, Parameter

from headrace.cli.rocketmq.cluster_verbs import CLUSTER_VERBS
from headrace.cli.rocketmq.group_verbs import GROUP_VERBS
from headrace.cli.rocketmq.options import HELP, NAME_SERVER, WrongOption
from headrace.cli.rocketmq.remoting import Remoting
from headrace.cli.rocketmq.topic_verbs import TOPIC_VERBS
from headrace.cli.rocketmq.verbs import Asked, Verb
from headrace.terminal.failure import UsageError
from headrace.terminal.help_text import HelpText
from headrace.terminal.output import print_line

VERBS = {verb.name: verb for verb in (*CLUSTER_VERBS, *TOPIC_VERBS, *GROUP_VERBS)}
DEFAULT_NAME_SERVER = "127.0.0.1:9876"
_HELP = ("help", "-h", "--help")
app = App(
    name="mqadmin",
    usage="Usage: headrace mqadmin VERB [OPTIONS]",
    help_format="plaintext",
    help_formatter=HelpText(),
    # Behind a verb they show the verb's options, which Cyclopts does not know.
    help_flags=[],
)


@app.default
def mqadmin(
    verb: Annotated[
        str, Parameter(allow_leading_hyphen=True, help="A verb of mqadmin, such as clusterList.")
    ],
    *options: Annotated[
        str, Parameter(allow_leading_hyphen=True, help="The verb's options, such as -t TOPIC.")
    ],
) -> None:
    """Run a verb of RocketMQ's mqadmin, with its options and its output.

    The help that is displayed is that of `headrace.model.protocols`.
    """
    if verb in _HELP:
        if options:
            _show_options(_known(options[0]))
        else:
            app.help_print([])
        return
    asked = _known(verb)
    try:
        given = asked.options.parse(options)
    except WrongOption as error:
        raise UsageError(f"{error}; see: headrace mqadmin {verb} -h") from None
    if HELP.letter in given:
        _show_options(asked)
        return
    default = os.environ.get("NAMESRV_ADDR", DEFAULT_NAME_SERVER)
    name_server = given.pop(NAME_SERVER.letter, default).partition(";")[0]
    remoting = Remoting()
    try:
        asked.run(Asked(name_server, given, remoting))
    finally:
        remoting.close()


def _known(name: str) -> Verb:
    """Return a verb. UsageError: it does not exist."""
    verb = VERBS.get(name)
    if verb is None:
        raise UsageError(f"The sub command {name} not exist; see: headrace mqadmin --help")
    return verb


def _show_options(verb: Verb) -> None:
    for line in verb.options.help_lines(verb.name):
        print_line(line)
