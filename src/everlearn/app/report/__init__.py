"""Reports: one HTML file each that opens without a network."""

from everlearn.app.report.mixture import render, write_report
from everlearn.app.report.packages import package_sections

__all__ = ["package_sections", "render", "write_report"]
