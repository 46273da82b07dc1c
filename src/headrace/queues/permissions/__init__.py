"""Users, their passwords and permissions: who may configure, write and read what.

definitions       vhosts and users with their limits and permissions, as texts and back
access            what a connection may do, asked for each operation
permission_rules  the same as rules of the one authorizer
rabbit_hash       RabbitMQ's password hashes
"""
