"""The report on a learned mixture: one HTML file that opens without a network."""

from everlearn.app.report.mixture import render, write_report

__all__ = ["render", "write_report"]
