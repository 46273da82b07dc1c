"""The row of a protocol of lines, each answered by a greeting and the line itself."""

from headrace.model.protocol_row import (
    Command,
    DevListener,
    ListenerProtocol,
    ProtocolRow,
    ReservedTopics,
)

ROW = ProtocolRow(
    "ECHO",
    (
        ListenerProtocol("ECHO", 7007, "echo", lacks="without encryption; let it speak ECHOS"),
        ListenerProtocol("ECHOS", 7008, "echos", tls=True, certificate_by_listener=True),
    ),
    frontend="tests.support.made_up.frontend",
    settings="tests.support.made_up.settings:EchoKeys",
    listeners_help="ECHO://host is for clients that like to hear themselves.",
    topics=ReservedTopics(
        "ECHO",
        prefix="__echo.",
        kept_for="an echo",
        plural="echoes",
        create="say a line, which makes it",
        configs="its settings are the echo's",
    ),
    process_files="headrace-echo-",
    administered=True,
    command=Command("echo", "tests.support.made_up.command:app", "See what was said."),
    dev=DevListener("ECHO", "echo_port", "Where lines are echoed.", "Lines", {}),
)
