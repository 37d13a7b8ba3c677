"""The server under load, compared with a bare echo of the framework in the same run."""
