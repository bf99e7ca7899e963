"""Learn from a stream into one file. The command line and a service share this package."""
