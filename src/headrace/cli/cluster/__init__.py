"""`headrace cluster`: how a cluster is, and who is to lead and hold its partitions.

cluster    the verbs, and those that show who leads and holds what
health     `info` and `health`: what the cluster is, and why it is not well
moves      `elect-leaders` and `reassign`
migrate    `migrate`: a single broker's metadata into ZooKeeper
view       a cluster at one moment, counted
"""
