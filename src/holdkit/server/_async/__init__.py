"""What the server and the command line share of its keys, for tasks; `_sync` is generated from here."""
