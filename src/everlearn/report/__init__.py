"""Reports: one HTML file each that opens without a network."""

from everlearn.report.mixture import render, write_report

__all__ = ["render", "write_report"]
