"""Typed operations for administrators, the same by every protocol.

* `permissions`: who calls, and what each operation asks of the authorizer: one table.
* `describe_cluster`: the cluster's id, controller and brokers.
"""
