"""The command line: learn models, and inspect, compare and use them."""
