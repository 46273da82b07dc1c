"""Planning of topics before they are created: checks, placement of partitions. Pure.

creation           checks topics to create or grow, and places their partitions
internal_topics    settings of the coordinators' internal topics
"""
