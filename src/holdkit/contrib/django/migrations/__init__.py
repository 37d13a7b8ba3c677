"""Migrations, which wrap the SQL files of the engines."""
