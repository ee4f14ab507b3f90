"""The manifest: the outputs of a run by content hash. Equal runs have equal manifests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cje._version import __version__
from cje.errors import CJEError
from cje.models.secrets import masked_url
from cje.pipeline.chunks import RowStream
from cje.pipeline.config import PipelineConfig
from cje.pipeline.disk import write_atomically
from cje.pipeline.hashing import content_hash

__all__ = ["Manifest", "read_manifest"]

VERSION = 1


class Manifest:
    """Collects the stages' outputs and writes ``manifest.json`` after each of them.

    It holds no times and no paths of the machine, so that two runs of one configuration can be
    compared byte for byte.
    """

    def __init__(self, work_dir: Path, config: PipelineConfig) -> None:
        self._path = work_dir / "manifest.json"
        # Settings that do not change the outputs.
        settings = config.model_dump(
            mode="json",
            exclude={"work_dir", "executor", "ray", "limits", "budget", "durability"},
        )
        settings["dataset"]["path"] = config.dataset.path.name
        if config.oracle_config is not None and config.oracle_config.path is not None:
            settings["oracle_config"]["path"] = config.oracle_config.path.name
        _mask_addresses(settings)
        self.settings: dict[str, Any] = settings
        self._data: dict[str, Any] = {
            "version": VERSION,
            "package": __version__,
            "config": settings,
            "stages": {},
            "files": {},
        }

    def stage(self, name: str, fingerprint: str, rows: RowStream) -> None:
        """Record a finished stage."""
        self._data["stages"][name] = {
            "fingerprint": fingerprint,
            "rows": len(rows),
            "errors": rows.errors,
            "chunks": [
                {"name": c.name, "sha256": c.sha256, "rows": c.rows, "errors": c.errors}
                for c in rows.chunks
            ],
        }
        self.save()

    def files(self, files: Mapping[str, bytes]) -> None:
        """Record the files of the result."""
        self._data["files"] = {name: content_hash(data) for name, data in sorted(files.items())}
        self.save()

    def save(self) -> None:
        """Write the manifest as one file."""
        write_atomically(self._path, (json.dumps(self._data, indent=1) + "\n").encode())


def _mask_addresses(settings: Any) -> None:
    """Mask, in place, parts of the path of any ``base_url`` that look like a key."""
    if isinstance(settings, dict):
        if isinstance(settings.get("base_url"), str):
            settings["base_url"] = masked_url(settings["base_url"])
        for value in settings.values():
            _mask_addresses(value)
    elif isinstance(settings, list):
        for value in settings:
            _mask_addresses(value)


def read_manifest(work_dir: Path) -> dict[str, Any] | None:
    """The manifest of the last run in `work_dir`, or None without a run.

    Raises
    ------
    CJEError
        If the file is not a manifest.
    """
    path = work_dir / "manifest.json"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        stages, files = data["stages"], data["files"]
        for stage in stages.values():
            int(stage["rows"]), int(stage["errors"])
        len(files)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CJEError(
            "the manifest is damaged",
            where=str(path),
            hint="delete it and run the same command again: it is written anew, and finished "
            "calls are kept",
        ) from error
    return dict(data)
