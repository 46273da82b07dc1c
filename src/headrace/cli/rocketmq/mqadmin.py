"""`headrace mqadmin`: RocketMQ's mqadmin, its verbs, options and output, without a Java process."""

import os
from typing import Annotated

from cyclopts import Parameter

from headrace.cli.rocketmq.cluster_verbs import CLUSTER_VERBS
from headrace.cli.rocketmq.group_verbs import GROUP_VERBS
from headrace.cli.rocketmq.remoting import Remoting
from headrace.cli.rocketmq.topic_verbs import TOPIC_VERBS
from headrace.cli.rocketmq.verbs import Asked
from headrace.terminal.failure import UsageError

VERBS = {**CLUSTER_VERBS, **TOPIC_VERBS, **GROUP_VERBS}
NAME_SERVER = "127.0.0.1:9876"


def mqadmin(
    verb: Annotated[str, Parameter(help="A verb of mqadmin, such as clusterList.")],
    *options: Annotated[
        str, Parameter(allow_leading_hyphen=True, help="The verb's options, such as -t TOPIC.")
    ],
) -> None:
    """Run a verb of RocketMQ's mqadmin, with its options and its output.

    The help that is displayed is that of `headrace.model.protocols`.
    """
    run = VERBS.get(verb)
    if run is None:
        raise UsageError(f"The sub command {verb} not exist.")
    given = _options(options)
    name_server = given.pop("n", os.environ.get("NAMESRV_ADDR", NAME_SERVER)).partition(";")[0]
    remoting = Remoting()
    try:
        run(Asked(name_server, given, remoting))
    finally:
        remoting.close()


def _options(words: tuple[str, ...]) -> dict[str, str]:
    """Return the values by the options' letters, "" for one without a value. Raises UsageError."""
    found: dict[str, str] = {}
    letter = None
    for word in words:
        is_option = word.startswith("-") and not word.lstrip("-").isdecimal()
        if is_option:
            if len(word) != 2:
                raise UsageError(f"option {word}: options have one letter, as -t")
            letter = word[1]
            if letter in found:
                raise UsageError(f"option -{letter} is given twice")
            found[letter] = ""
        elif letter is None or found[letter]:
            raise UsageError(f"{word} is the value of no option")
        else:
            found[letter] = word
    return found
