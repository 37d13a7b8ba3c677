"""The server under load, beside the bare framework's echo in the same run."""
