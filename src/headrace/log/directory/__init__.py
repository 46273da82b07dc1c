"""A `log.dir`: its lock, its identity, its logs, its checkpoints, its failure."""
