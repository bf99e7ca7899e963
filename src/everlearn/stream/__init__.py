"""Learn from a stream into one file: what the command line and a service share."""
