"""The command lines of `python -m benchmarks` and `python -m benchmarks.reproduce`."""

import argparse
from collections.abc import Mapping, Sequence


def chosen(
    program: str,
    description: str,
    parts: Mapping[str, str],
    arguments: Sequence[str] | None = None,
) -> list[str]:
    """The parts that the command line names, or all of them.

    `parts` says of each what it measures; `--help` lists them. `arguments` stands in for the
    command line.
    """
    width = max(map(len, parts))
    listed = "\n".join(f"  {name:<{width}}  {what}" for name, what in parts.items())
    parser = argparse.ArgumentParser(
        prog=program,
        description=description,
        epilog=f"names:\n{listed}\n\nexample: {program} {next(iter(parts))}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="name", help="what to run; default: all")
    names = parser.parse_args(arguments).names
    unknown = [name for name in names if name not in parts]
    if unknown:
        parser.error(f"unknown name {', '.join(unknown)}: expected {', '.join(parts)}")
    return names or list(parts)
