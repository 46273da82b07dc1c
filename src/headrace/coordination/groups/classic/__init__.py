"""Consumer groups of the classic protocol: clients assign, the coordinator keeps time."""
