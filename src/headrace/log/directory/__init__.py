"""A log directory (`log.dir`): lock, identity, logs, checkpoints, fencing after disk errors."""
