"""Tools for the log directories of stopped brokers: dump, verify, repair, transfer."""
