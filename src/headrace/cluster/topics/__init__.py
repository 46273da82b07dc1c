"""Topics before they are made: checked, partitions placed; the coordinators' own. Pure.

creation           whether topics may be created or grow, and where their partitions go
internal_topics    what the coordinators' own topics are made with
"""
