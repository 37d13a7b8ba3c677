"""The client for tasks; `_sync` is generated from here."""
