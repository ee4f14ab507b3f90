"""MkDocs hook: pages ask for nothing outside the site, so that search works from disk.

The theme's `offline` plugin fetches its substitute for workers from a public address; ours is
`docs/assets/worker_from_disk.js`.
"""

from __future__ import annotations

import re
from typing import Any

from mkdocs.utils import get_relative_url

_FETCHED = re.compile(r'<script src="https://[^"]*iframe-worker[^"]*">')
_OURS = "assets/worker_from_disk.js"


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Replace the address by the site's own file."""
    return _FETCHED.sub(f'<script src="{get_relative_url(_OURS, page.url)}">', output)


def on_post_template(output_content: str, template_name: str, **_: Any) -> str:
    """The same in pages that are templates: 404.html, which is served from the site's root."""
    return _FETCHED.sub(f'<script src="/{_OURS}">', output_content)
