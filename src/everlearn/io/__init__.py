"""Read records from files, folders and pipes, and remember which of them were learned."""
