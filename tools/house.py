"""Print how the code base stands: `python tools/house.py [folder of the package]`.

The figures are mirrors, not gates: none of them is a goal, and nothing fails because of one. They
show where a reader has a long way. Walks are the functions that one call runs through; they are
measured by running it. Walks and tests are left out if another folder is given.
"""

from __future__ import annotations

import ast
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import median
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

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
    """Classes of our own, protocols aside, that exactly one other class inherits from."""
    classes = [n for m in modules for n in ast.walk(m.tree) if isinstance(n, ast.ClassDef)]
    names = {node.name for node in classes if "Protocol" not in map(ast.unparse, node.bases)}
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


def walked(call: Callable[[], object]) -> tuple[int, int, int]:
    """How many functions, modules and packages of everlearn a call runs through.

    Compiled loops are not seen; comprehensions and lambdas are not counted.
    """
    seen: set[tuple[str, str]] = set()

    def watch(frame: FrameType, event: str, _: object) -> None:
        module = frame.f_globals.get("__name__", "")
        name = frame.f_code.co_qualname
        if event == "call" and module.startswith("everlearn") and not name.endswith(">"):
            seen.add((module, name))

    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
    modules = {module for module, _ in seen}
    return len(seen), len(modules), len({".".join(m.split(".")[:2]) for m in modules})


def walks(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Of a small batch on the serial engine, after calls that compile and import."""
    sys.path.insert(0, str(ROOT / "src"))
    warnings.simplefilter("ignore")
    import numpy as np
    from typer.testing import CliRunner

    import everlearn
    from everlearn.cli.main import app
    from everlearn.testing.data import planted_mixture, planted_topics, planted_tree

    rows = planted_mixture(600, 3, 4, random_state=0).X
    topics = planted_topics(90, 3, 30, 20, random_state=0)
    labels = np.array(["ash", "elm", "fir"])[topics.labels]
    counts = planted_tree(0, n_documents=60, n_tokens=20).counts

    def mixture(n: int) -> Any:
        model = everlearn.DPMixture(engine="serial", random_state=0)
        for i in range(n):
            model.partial_fit(rows[i * 50 : i * 50 + 50])
        return model

    def classifier(n: int) -> Any:
        model = everlearn.MedLDAClassifier(engine="serial", random_state=0)
        for i in range(n):
            part = slice(i * 30, i * 30 + 30)
            first = {"classes": np.unique(labels)} if i == 0 else {}
            model.partial_fit(topics.X[part], labels[part], **first)
        return model

    def tree(n: int) -> Any:
        model = everlearn.TopicTree(engine="serial", random_state=0)
        for i in range(n):
            model.partial_fit(counts[i * 30 : i * 30 + 30])
        return model

    for warm, n in ((mixture, 3), (classifier, 3), (tree, 2)):
        warm(n)
    last = slice(60, 90)
    third, labelled, second = mixture(2), classifier(2), tree(1)
    table, file = folder / "rows.csv", folder / "mixture.evl"
    names = ",".join("abc")
    np.savetxt(table, rows, delimiter=",", header=names, comments="")

    def learn(name: str) -> None:
        arguments = ["learn", str(folder / name), str(table), "--kind", "mixture", "-q"]
        result = CliRunner().invoke(app, [*arguments, "--batch", "200"])
        if result.exit_code:
            raise RuntimeError(result.output)

    learn("warm.evl")
    mixture(3).save(file)
    everlearn.load(file)
    return {
        "DPMixture.partial_fit (3rd batch)": walked(lambda: third.partial_fit(rows[100:150])),
        "MedLDAClassifier.partial_fit (3rd)": walked(
            lambda: labelled.partial_fit(topics.X[last], labels[last])
        ),
        "TopicTree.partial_fit (2nd)": walked(lambda: second.partial_fit(counts[30:])),
        "everlearn learn (600 rows)": walked(lambda: learn("model.evl")),
        "DPMixture.save": walked(lambda: third.save(file)),
        "DPMixture load": walked(lambda: everlearn.load(file)),
    }


def main() -> None:
    """Print everything."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "src" / "everlearn"
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
    between = Counter((a.package, b.package) for a, b in edges if a.package != b.package)
    print(f"edges of packages   {len(between):>8}, {sum(between.values())} imports across them")
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
    if len(sys.argv) == 1:
        tests = sorted((ROOT / "tests").rglob("*.py"))
        n_test_lines = sum(path.read_text("utf-8").count("\n") for path in tests)
        print(f"lines of tests      {n_test_lines:>8,} in {len(tests)} files")
        print("walks               functions  modules  packages")
        with tempfile.TemporaryDirectory() as folder:
            for call, (n_functions, n_modules, n_packages) in walks(Path(folder)).items():
                print(f"  {call:<36}{n_functions:>5}{n_modules:>6}{n_packages:>6}")
    print("packages")
    for package, count in sorted(packages.items()):
        print(f"  {package:<12}{files[package]:>4} files{count:>8,} lines")


if __name__ == "__main__":
    main()
