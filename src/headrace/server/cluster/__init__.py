"""A broker's assembly in a cluster: its store session, its links to other brokers, migration."""
