"""Exchange types: each has the table that indexes an exchange's bindings, and its checks."""
