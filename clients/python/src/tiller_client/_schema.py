"""A JSON Schema from the signature of a function."""

from __future__ import annotations

import inspect
import json
import types
import typing
from collections.abc import Callable
from typing import Annotated, Any, Literal, Union, cast

Schema = dict[str, Any]

_PLAIN: dict[object, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    list: {"type": "array"},
    dict: {"type": "object"},
    type(None): {"type": "null"},
    Any: {},
    object: {},
}


def parameters_of(function: Callable[..., object], context_type: type) -> tuple[Schema, str | None]:
    """The schema of a function's parameters, and the name of the one that takes the context."""
    hints = typing.get_type_hints(function, include_extras=True)
    properties: dict[str, Schema] = {}
    required: list[str] = []
    context: str | None = None
    for parameter in inspect.signature(function).parameters.values():
        name = parameter.name
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"{function.__qualname__}: a tool cannot have the parameter {parameter}")
        if name not in hints:
            raise TypeError(f"{function.__qualname__}: the parameter {name} needs a type")
        if hints[name] is context_type:
            context = name
            continue
        try:
            schema = schema_of(hints[name])
        except TypeError as error:
            raise TypeError(f"{function.__qualname__}: the parameter {name} has {error}") from error
        if parameter.default is parameter.empty:
            required.append(name)
        elif _is_json(parameter.default):
            schema["default"] = parameter.default
        properties[name] = schema
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }, context


def schema_of(hint: object) -> Schema:
    """The schema of a type. Raises `TypeError` for a type that JSON does not have."""
    if hint in _PLAIN:
        return dict(_PLAIN[hint])
    origin = typing.get_origin(hint)
    arguments = typing.get_args(hint)
    if origin is Annotated:
        schema = schema_of(arguments[0])
        notes = [note for note in arguments[1:] if isinstance(note, str)]
        return {**schema, "description": " ".join(notes)} if notes else schema
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [schema_of(one) for one in arguments]}
    if origin is list:
        return {"type": "array", "items": schema_of(arguments[0])}
    if origin is dict and arguments[0] is str:
        return {"type": "object", "additionalProperties": schema_of(arguments[1])}
    raise TypeError(
        f"the type {hint!r}, but a tool takes str, int, float, bool, list, dict with str keys, "
        "None, Literal, and unions of these"
    )


def description_of(function: Callable[..., object]) -> str:
    """The docstring, or the name in words."""
    text = inspect.getdoc(function)
    return text if text else cast("str", function.__name__).replace("_", " ")


def _is_json(value: object) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True
