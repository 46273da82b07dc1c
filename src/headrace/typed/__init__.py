"""Typed values of topics: the types of a DDL, the type table's refusals, a plain decoder."""
