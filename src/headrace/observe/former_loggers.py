"""Former names of loggers, accepted for one version after their modules moved.

The list has modules that define a logger, and packages that no longer exist, in order. A logger
whose former name is now its parent needs no entry: it inherits the level.
"""

# ruff: noqa: E501
FORMER_LOGGERS = {
    "headrace.broker.follower": "headrace.broker.replica.follower",
    "headrace.client.peer_clients": "headrace.client.transport.peer_clients",
    "headrace.cluster.controller.adoption": "headrace.cluster.controller.adopted_metadata",
    "headrace.cluster.membership.doubts": "headrace.cluster.membership.directory_doubts",
    "headrace.cluster.settings.amqp_settings": "headrace.cluster.settings.vhost_settings",
    "headrace.coordination.queues": "headrace.queues",
    "headrace.coordination.queues.engine": "headrace.queues.engine",
    "headrace.coordination.queues.engine.dead_letter_publishing": "headrace.queues.engine.dead_letter_publishing",
    "headrace.coordination.queues.messages": "headrace.queues.stores",
    "headrace.coordination.queues.messages.durable_stream": "headrace.queues.stores.stream.durable_stream",
    "headrace.coordination.queues.messages.memory_messages": "headrace.queues.stores.memory.memory_messages",
    "headrace.coordination.queues.messages.record_messages": "headrace.queues.stores.log.record_messages",
    "headrace.coordination.queues.messages.spill": "headrace.queues.stores.memory.spill",
    "headrace.coordination.queues.messages.spill_files": "headrace.queues.stores.memory.spill_files",
    "headrace.coordination.queues.messages.topic_writer": "headrace.vhosts.topic_writer",
    "headrace.coordination.queues.permissions": "headrace.queues.permissions",
    "headrace.coordination.queues.permissions.definitions": "headrace.queues.permissions.definitions",
    "headrace.coordination.runtime": "headrace.shards",
    "headrace.coordination.runtime.shard": "headrace.shards.shard",
    "headrace.frontends.amqp.adoption": "headrace.vhosts.password_migration",
    "headrace.frontends.amqp.alarms": "headrace.vhosts.alarms",
    "headrace.frontends.amqp.consumer_timeouts": "headrace.frontends.amqp.channel.consumer_timeouts",
    "headrace.frontends.amqp.durable_queues": "headrace.vhosts.durable_queues",
    "headrace.frontends.amqp.logins": "headrace.frontends.amqp.connection.logins",
    "headrace.frontends.amqp.read_topics": "headrace.vhosts.read_topics",
    "headrace.frontends.amqp.restoring": "headrace.vhosts.restore",
    "headrace.frontends.amqp.session": "headrace.frontends.amqp.connection.session",
    "headrace.frontends.kafka.connection.authentication": "headrace.frontends.kafka.authentication.authentication",
    "headrace.net.handshakes": "headrace.net.tls.handshakes",
    "headrace.queues.stores.topic": "headrace.vhosts.topic_writer",
    "headrace.queues.stores.topic.topic_writer": "headrace.vhosts.topic_writer",
    "headrace.replication.answers": "headrace.replication.fetch_responses",
    "headrace.server.doors": "headrace.server.listeners",
    "headrace.spark.commits": "headrace.spark.source.commits",
    "headrace.spark.listener": "headrace.spark.sessions.listener",
    "headrace.spark.read": "headrace.spark.source.read",
    "headrace.spark.register": "headrace.spark.sessions.register",
    "headrace.spark.sink_driver": "headrace.spark.sink.sink_driver",
    "headrace.spark.stream_reader": "headrace.spark.source.stream_reader",
    "headrace.spark.tasks": "headrace.spark.source.tasks",
    "headrace.vhosts.declaration_nodes": "headrace.vhosts.declarations.takeover",
}
"""Former logger name to present one."""
