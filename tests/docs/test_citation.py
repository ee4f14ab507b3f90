"""`CITATION.cff` has what the format asks for, and the version of the package."""

from __future__ import annotations

from pathlib import Path

import yaml

from cje import __version__

FILE = Path(__file__).resolve().parents[2] / "CITATION.cff"


def test_the_citation_is_whole_and_of_this_version():
    cited = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    assert cited["cff-version"] == "1.2.0"
    assert cited["version"] == __version__
    assert cited["type"] == "software"
    assert cited["message"].strip()
    assert cited["title"].strip()
    assert all(author.get("name") or author.get("family-names") for author in cited["authors"])
    known = {
        "abstract", "authors", "cff-version", "commit", "contact", "date-released", "doi",
        "identifiers", "keywords", "license", "license-url", "message", "preferred-citation",
        "references", "repository", "repository-artifact", "repository-code", "title", "type",
        "url", "version",
    }  # fmt: skip
    assert set(cited) <= known
