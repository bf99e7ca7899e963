"""Measurements of speed and quality on this machine; run with `make bench` or `make reproduce`."""
