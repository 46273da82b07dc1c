"""Classic group protocol: a client computes the assignment, the coordinator times rebalances."""
