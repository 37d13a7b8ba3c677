# Generated from ../_async/__init__.py by tools/gen_sync.py: do not edit.
"""What the server and the command line share of its keys, for tasks; `_sync` is generated from here."""
