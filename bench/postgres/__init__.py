"""Holds on PostgreSQL: by hand in three ways, ours, and the most the server can take. `part.measure` is the way in."""
