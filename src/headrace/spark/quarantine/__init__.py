"""Refused records of streaming queries: spooled by tasks, published once by the sink (§ README)."""
