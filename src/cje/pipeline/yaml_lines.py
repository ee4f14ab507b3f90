"""Read YAML into a pydantic model; errors name the line and the nearest valid name."""

from __future__ import annotations

import difflib
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from cje.errors import CJEError
from cje.models.secrets import looks_secret

__all__ = ["key_lines", "load_yaml"]

M = TypeVar("M", bound=BaseModel)
Place = tuple[str | int, ...]

_MAX_NODES = 100_000  # of a configuration with its aliases written out


def load_yaml(path: str | Path, model: type[M]) -> M:
    """The file at `path` as a `model`; raise a `CJEError` with the fault and its line."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise CJEError(f"the configuration cannot be read: {error}", where=str(path)) from error
    return parse_yaml(text, model, name=str(path))


def key_lines(path: str | Path) -> dict[str, int]:
    """The line of every key and item of a file that `load_yaml` has read, by dotted name."""
    node = yaml.compose(Path(path).read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    return {".".join(map(str, place)): line for place, line in _lines(node, (), str(path))}


def parse_yaml(text: str, model: type[M], *, name: str = "config") -> M:
    """`load_yaml` for text in memory; messages call the file `name`."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        _refuse_expansion(node, name)
        data = yaml.safe_load(text)
    except RecursionError as error:
        raise CJEError("the YAML is nested too deeply", where=name) from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or str(error)
        raise CJEError(f"this is not valid YAML: {problem}", where=f"{name}{line}") from error
    if not isinstance(data, Mapping):
        raise CJEError("the configuration must be a mapping of names to values", where=name)
    lines = dict(_lines(node, (), name))
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise _explain(error, model, lines, name) from error


def _refuse_expansion(root: yaml.Node | None, name: str) -> None:
    """Raise if nested anchors and aliases expand to too many values."""
    sizes: dict[int, int] = {}

    def size(node: yaml.Node) -> int:
        known = sizes.get(id(node))
        if known is not None:
            return known
        sizes[id(node)] = _MAX_NODES + 1  # raised for an anchor that contains itself
        children: list[yaml.Node] = []
        if isinstance(node, yaml.MappingNode):
            children = [child for pair in node.value for child in pair]
        elif isinstance(node, yaml.SequenceNode):
            children = node.value
        sizes[id(node)] = total = 1 + sum(map(size, children))
        return total

    if root is not None and size(root) > _MAX_NODES:
        raise CJEError(
            "the anchors (&) and aliases (*) of this YAML expand to too many values",
            where=name,
            hint="write the values out",
        )


def _lines(node: yaml.Node | None, place: Place, name: str) -> Iterator[tuple[Place, int]]:
    """(place, line) of every key and item; a key given twice is an error."""
    if node is None:
        return
    yield place, node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        seen: set[Any] = set()
        for key, value in node.value:
            if key.value in seen:
                raise CJEError(
                    f"the key '{key.value}' is given twice",
                    where=f"{name}, line {key.start_mark.line + 1}",
                )
            seen.add(key.value)
            yield from _lines(value, (*place, key.value), name)
            yield (*place, key.value), key.start_mark.line + 1
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _lines(item, (*place, index), name)


def _explain(
    error: ValidationError, model: type[BaseModel], lines: Mapping[Place, int], name: str
) -> CJEError:
    """The first fault (by line) in full, and the others in one line each."""
    items = error.errors()
    places = [tuple(item["loc"]) for item in items]
    # A list with wrong items is also reported as too short; the items are the cause.
    inner = [
        item for item, place in zip(items, places, strict=True)
        if not any(other != place and other[: len(place)] == place for other in places)
    ]  # fmt: skip
    # A misspelt key is also a missing key; the misspelling is reported first.
    found = sorted(
        ((_line(tuple(item["loc"]), lines), item) for item in inner),
        key=lambda pair: (pair[1]["type"] == "missing", pair[0]),
    )
    line, first = found[0]
    what, hint = _describe(first, model)
    if len(found) > 1:
        rest = "; ".join(f"line {n}: {_describe(item, model)[0]}" for n, item in found[1:6])
        hint = f"{hint}. Also wrong: {rest}"
    extra = {} if _keep_to_yourself(first) else {"value": first["input"]}
    return CJEError(what, where=f"{name}, line {line}", hint=hint, **extra)


def _keep_to_yourself(item: Any) -> bool:
    """Whether a message must not repeat the value: it is uninformative, or may hold a key."""
    private = {"base_url", "api_key_env", "extra_body"}
    whole_section = isinstance(item["input"], Mapping)
    return (
        item["type"] in ("missing", "extra_forbidden")
        or whole_section
        or bool(private & set(item["loc"]))
        or looks_secret(str(item["input"]))
    )


def _line(place: Place, lines: Mapping[Place, int]) -> int:
    while place and place not in lines:
        place = place[:-1]  # the section of the missing key, or the common part of a union
    return lines.get(place, 1)


def _describe(item: Any, model: type[BaseModel]) -> tuple[str, str]:
    place = tuple(item["loc"])
    dotted = ".".join(str(part) for part in place)
    if item["type"] == "extra_forbidden":
        valid = _names_at(model, place[:-1])
        close = difflib.get_close_matches(str(place[-1]), valid, n=1, cutoff=0.5)
        hint = f"did you mean '{close[0]}'?" if close else f"valid names: {', '.join(valid)}"
        return f"unknown key '{dotted}'", hint
    if item["type"] == "missing":
        return f"the key '{dotted}' is missing", "add it; docs/howto/run_pipeline.md shows each key"
    message = item["msg"].removeprefix("Value error, ")
    return f"wrong value for '{dotted}': {message}", "correct the value"


def _names_at(model: type[BaseModel], place: Place) -> list[str]:
    """The valid keys of the section at `place`."""
    models = [model]
    for part in place:
        annotations = [
            m.model_fields[str(part)].annotation for m in models if str(part) in m.model_fields
        ]
        if annotations:
            models = [found for a in annotations for found in _models_in(a)]
    return sorted({n for m in models for n in m.model_fields})


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) in (Union, types.UnionType, list, tuple, dict):
        for part in get_args(annotation):
            yield from _models_in(part)
