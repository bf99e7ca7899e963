"""Streams of records from files, folders and pipes, each learned exactly once."""
