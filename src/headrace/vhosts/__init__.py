"""AMQP virtual hosts on a broker: declarations, restore, exchange topics, alarms, permissions."""
