"""Tools for log directories no broker runs on: dump, verify, repair, transfer."""
