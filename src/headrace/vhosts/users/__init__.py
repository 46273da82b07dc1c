"""Users of AMQP's vhosts: how they log in.

accounts            the users of a broker: logins, tags, super users
logins              users with SCRAM credentials or RabbitMQ's hashes, and guest
password_migration  SCRAM credentials in place of a hash, once its user has logged in
rabbit_hash         RabbitMQ's password hashes
"""
