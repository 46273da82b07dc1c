"""The cluster: live brokers, topics, leaders and ISRs, and settings, in a metadata store.

    peers/            requests between brokers: orders, the controller, coordinators
    controller/       the controller: candidacy, its term, requests of clients and tools
    controller_port   the interface by which the rest of a broker uses the controller
    membership/       this broker's registration, doubts and lease; it carries out orders
    decisions/        from an event and facts to changes and orders (pure)
    settings/         run-time settings of topics, brokers, groups and clients
    store/            the metadata store as Kafka's znodes
    topics/           checks of new topics, and the placement of their partitions (pure)

Each imports only from those below it. The store is used through `ports.store.Store`: SQLite, or
ZooKeeper. Each change has four steps: decide on the facts, write to the store, order brokers to
open or drop logs, show the delta to clients. A start repairs what a kill left in between: it
creates missing logs of topics in the store, completes deletions, and only then adopts directories
without a topic.
"""
