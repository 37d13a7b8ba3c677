# Generated from ../_async/__init__.py by tools/gen_sync.py: do not edit.
"""The client for tasks; `_sync` is generated from here."""
