"""The metadata store of a cluster: a ZooKeeper ensemble (kazoo), as a `ports.store.Store`.

kazoo uses a thread of its own (`connection`). Its results are passed to the deciding thread in
ZooKeeper's order, where `watches` and `zookeeper_store` run. Imported only if `zookeeper.connect`
is set.
"""
