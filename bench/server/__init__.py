"""The server under load, beside another revision of the project if one is named."""
