"""The quick environment (`make quick`) has no torch: these tests belong to `make test`."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("torch") and find_spec("transformers") else ["test_*.py"]
