"""The metadata store of a cluster: a ZooKeeper ensemble by kazoo, behind `ports.store.Store`.

kazoo talks to ZooKeeper on a thread of its own (`connection`); what it finds out is handed to the
deciding thread in the order in which ZooKeeper said it, where `watches` and `zookeeper_store` are.
Imported only where `zookeeper.connect` is set.
"""
