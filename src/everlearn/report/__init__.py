"""Reports on models: HTML pages, each in one file that needs no network."""

from everlearn.report.mixture import render, write_report

__all__ = ["render", "write_report"]
