"""The version, where every layer can read it, and what a bug report should name."""

from __future__ import annotations

__version__ = "0.1.0"

_DEPENDENCIES = ("numpy", "scipy", "scikit-learn", "polars", "narwhals", "pydantic")


def version_report() -> str:
    """The version of this package, of Python, the platform and the main dependencies."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    lines = [f"cje {__version__}", f"python {platform.python_version()} ({platform.platform()})"]
    for name in _DEPENDENCIES:
        try:
            lines.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            lines.append(f"{name} not installed")
    return "\n".join(lines)
