"""Changes of a database, as Debezium publishes them, into a Delta table. README.md tells more.

changes.py   publishes changes, in place of a database with Debezium
accounts.py  Spark: the table `accounts` as the database has it
"""
