"""The faces for tasks; `_sync` is generated from here."""
