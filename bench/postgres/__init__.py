"""Holds on PostgreSQL: three hand-written variants, Holdkit, and the server's limit. Start with `part.measure`."""
