"""No module of the package can run code that a data file carries."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src" / "cje"
# Modules whose loaders run code, and calls that do.
MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve"}
CALLS = {"eval", "exec", "compile", "__import__"}
LOADERS = {
    "yaml.load",
    "yaml.unsafe_load",
    "yaml.full_load",
    "pd.read_pickle",
    "joblib.load",
    "os.system",
}


def offences(code: str) -> list[str]:
    """Each place in `code` that could run what it read."""
    found = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            found += [a.name for a in node.names if a.name.split(".")[0] in MODULES]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in MODULES:
            found.append(str(node.module))
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            given = {k.arg: ast.unparse(k.value) for k in node.keywords}
            if (
                name in CALLS
                or (name in LOADERS and "Safe" not in given.get("Loader", ""))
                or (name == "torch.load" and given.get("weights_only") != "True")
                or given.get("allow_pickle", "False") != "False"
                or given.get("trust_remote_code", "False") != "False"
                or given.get("shell", "False") != "False"
            ):
                found.append(ast.unparse(node))
    return found


def test_no_module_can_run_code_that_data_carry() -> None:
    found = {
        str(path.relative_to(SOURCE)): wrong
        for path in sorted(SOURCE.rglob("*.py"))
        if (wrong := offences(path.read_text(encoding="utf-8")))
    }
    assert found == {}


def test_an_offence_is_noticed() -> None:
    wrong = ["import pickle", "from dill import loads", "joblib.load(path)", "eval(text)",
             "yaml.load(f)", "torch.load(path)", "np.load(path, allow_pickle=True)",
             "run(x, shell=True)", "Auto.from_pretrained(x, trust_remote_code=True)"]  # fmt: skip
    assert all(offences(line) for line in wrong)
    assert offences("torch.load(path, weights_only=True); re.compile(x); yaml.safe_load(f)") == []
