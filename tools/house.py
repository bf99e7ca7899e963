"""Print how the code base stands: `python tools/house.py [folder of the package]`.

The figures are mirrors, not gates: none of them is a goal, and nothing fails because of one. They
show where a reader has a long way.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path
from statistics import median

SEAMS = {"params", "estimator", "self", "model", "learner", "engine"}
"""Parameters whose type says what a function may touch."""


class Module:
    """A source file and what is in it."""

    def __init__(self, path: Path, root: Path) -> None:
        self.path = path.relative_to(root)
        self.text = path.read_text("utf-8")
        self.tree = ast.parse(self.text)
        self.package = self.path.parts[0] if len(self.path.parts) > 1 else "(root)"
        self.n_lines = self.text.count("\n")
        self.functions = [
            node
            for node in ast.walk(self.tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]

    def imports(self) -> set[str]:
        """Modules of everlearn that it imports."""
        return {
            node.module.removeprefix("everlearn.")
            for node in ast.walk(self.tree)
            if isinstance(node, ast.ImportFrom)
            and node.module is not None
            and node.module.startswith("everlearn.")
        }


def length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function."""
    return (node.end_lineno or node.lineno) - node.lineno + 1


def shares(modules: list[Module]) -> dict[str, float]:
    """Parts of all lines that are statements, docstrings, comments and blank, in percent."""
    counts: Counter[str] = Counter()
    for module in modules:
        lines = module.text.splitlines()
        documented: set[int] = set()
        for node in ast.walk(module.tree):
            constant = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            if constant and isinstance(node.value.value, str):
                documented |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        for number, line in enumerate(lines, 1):
            text = line.strip()
            if number in documented:
                counts["docstrings"] += 1
            elif not text:
                counts["blank"] += 1
            elif text.startswith("#"):
                counts["comments"] += 1
            else:
                counts["code"] += 1
            counts["comments"] += number not in documented and "  # " in line
    n_lines = sum(module.n_lines for module in modules)
    return {name: 100 * count / n_lines for name, count in counts.most_common()}


def single_subclass_bases(modules: list[Module]) -> list[str]:
    """Classes of our own that exactly one other class inherits from."""
    classes = [n for m in modules for n in ast.walk(m.tree) if isinstance(n, ast.ClassDef)]
    names = {node.name for node in classes}
    heirs: Counter[str] = Counter()
    for node in classes:
        for base in node.bases:
            name = ast.unparse(base).partition("[")[0].rpartition(".")[2]
            heirs[name] += name in names
    return sorted(name for name, count in heirs.items() if count == 1)


def any_at_seams(modules: list[Module]) -> int:
    """Parameters at seams whose type is Any."""
    arguments = (
        argument
        for module in modules
        for function in module.functions
        for argument in [*function.args.args, *function.args.kwonlyargs]
    )
    return sum(
        argument.arg in SEAMS
        and argument.annotation is not None
        and ast.unparse(argument.annotation) == "Any"
        for argument in arguments
    )


def constructors(modules: list[Module]) -> dict[str, int]:
    """How many parameters the classes have that have more than ten keyword-only ones."""
    found = {}
    for module in modules:
        for node in ast.walk(module.tree):
            for part in node.body if isinstance(node, ast.ClassDef) else ():
                if isinstance(part, ast.FunctionDef) and part.name == "__init__":
                    count = len(part.args.args + part.args.kwonlyargs) - 1
                    if len(part.args.kwonlyargs) > 10:
                        found[node.name] = count
    return found


def one_call_helpers(modules: list[Module]) -> int:
    """Private functions of at most 8 lines that are named in one place only."""
    short = [f.name for m in modules for f in m.functions if f.name[:1] == "_" and length(f) <= 8]
    names = Counter(
        name
        for module in modules
        for node in ast.walk(module.tree)
        for name in [getattr(node, "id", None) or getattr(node, "attr", None)]
        if isinstance(node, ast.Name | ast.Attribute)
    )
    return sum(names[name] == 1 for name in short if not name.startswith("__"))


def main() -> None:
    """Print everything."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else "src/everlearn")
    modules = [Module(path, root) for path in sorted(root.rglob("*.py"))]
    sizes = [m.n_lines for m in modules if m.n_lines]
    functions = sorted(length(f) for m in modules for f in m.functions)
    names = {".".join(m.path.with_suffix("").parts).removesuffix(".__init__"): m for m in modules}
    edges = [(m, names[n]) for m in modules for n in m.imports() if n in names]
    inside = sum(a.package == b.package for a, b in edges)
    importers = Counter(b.path for _, b in edges)
    print(f"lines of source     {sum(sizes):>8,} in {len(modules)} files")
    print(f"lines a file        {median(sizes):>8.0f} in the median, {max(sizes)} at most")
    print(
        f"lines a function    {median(functions):>8.0f} in the median, nine in ten under "
        f"{functions[len(functions) * 9 // 10]}, {functions[-1]} at most"
    )
    parts = ", ".join(f"{name} {share:.1f} %" for name, share in shares(modules).items())
    print(f"lines are           {parts}")
    print(f"imports             {len(edges):>8,}, {inside} of them inside a package")
    print(f"one importer        {sum(count == 1 for count in importers.values()):>8} modules")
    print(f"one-call helpers    {one_call_helpers(modules):>8} of at most 8 lines")
    bases = single_subclass_bases(modules)
    print(f"one-subclass bases  {len(bases):>8}  {', '.join(bases)}")
    print(f"Any at seams        {any_at_seams(modules):>8}")
    print("parameters          " + ", ".join(f"{n} {k}" for n, k in constructors(modules).items()))
    packages = Counter[str]()
    files = Counter(module.package for module in modules)
    for module in modules:
        packages[module.package] += module.n_lines
    print("packages")
    for package, count in sorted(packages.items()):
        print(f"  {package:<12}{files[package]:>4} files{count:>8,} lines")


if __name__ == "__main__":
    main()
