"""`headrace cluster`: the state of a cluster, leader elections and moves of partitions.

cluster    the tree of commands; status, controller, brokers, partitions health     `info` and
`health`: facts about the cluster, and reasons why it is not healthy reassign   `elect-leaders` and
`reassign` migrate    `migrate`: a single broker's metadata into ZooKeeper view       a cluster at
one moment, counted
"""
