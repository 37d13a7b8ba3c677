"""The guided demo: a flash sale in the terminal, on one SQLite file, with the failures that usually occur in one.

It uses only the public API. Run it with ``python -m holdkit.demo``.
"""
