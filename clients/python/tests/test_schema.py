from __future__ import annotations

import unittest
from typing import Annotated, Any, Literal, Optional

from tiller_client import Image, ToolContext, ToolResult, Tools
from tiller_client.tools import error_line, make_tool, result_line, result_of


def weather(
    city: Annotated[str, "The name of the city"],
    days: int = 1,
    unit: Literal["C", "F"] = "C",
    tags: Optional[list[str]] = None,
    limits: dict[str, float] | None = None,
    verbose: bool = False,
    extra: Any = None,
    *,
    context: ToolContext,
) -> str:
    """The weather forecast.

    Asks the sky.
    """
    return f"{city} {days} {unit} {tags} {limits} {verbose} {extra} {context}"


class Schemas(unittest.TestCase):
    def test_a_signature_becomes_a_schema(self) -> None:
        tool = make_tool(weather, timeout=1.5)
        self.assertEqual(tool.name, "weather")
        self.assertEqual(tool.description, "The weather forecast.\n\nAsks the sky.")
        self.assertEqual(tool.context_parameter, "context")
        self.assertEqual(tool.timeout_ms, 1500)
        null = {"type": "null"}
        self.assertEqual(
            tool.parameters,
            {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "The name of the city"},
                    "days": {"type": "integer", "default": 1},
                    "unit": {"enum": ["C", "F"], "default": "C"},
                    "tags": {"anyOf": [{"type": "array", "items": {"type": "string"}}, null], "default": None},
                    "limits": {
                        "anyOf": [{"type": "object", "additionalProperties": {"type": "number"}}, null],
                        "default": None,
                    },
                    "verbose": {"type": "boolean", "default": False},
                    "extra": {"default": None},
                },
                "required": ["city"],
                "additionalProperties": False,
            },
        )

    def test_a_function_without_docstring_is_described_by_its_name(self) -> None:
        def look_around() -> None: ...

        self.assertEqual(make_tool(look_around).description, "look around")

    def test_a_type_that_json_does_not_have_is_refused(self) -> None:
        def bad(when: set[int]) -> None: ...

        with self.assertRaisesRegex(TypeError, "bad: the parameter when has the type set"):
            make_tool(bad)

    def test_a_parameter_without_type_is_refused(self) -> None:
        namespace: dict[str, Any] = {}
        exec("def bad(x): pass", namespace)
        with self.assertRaisesRegex(TypeError, "the parameter x needs a type"):
            make_tool(namespace["bad"])

    def test_open_parameter_lists_are_refused(self) -> None:
        def bad(*words: str) -> None: ...

        with self.assertRaisesRegex(TypeError, "a tool cannot have the parameter"):
            make_tool(bad)

    def test_a_registry_decorates(self) -> None:
        tools = Tools()

        @tools.tool
        def one() -> str:
            """First."""
            return "1"

        @tools.tool(name="second", description="Second.", timeout=2)
        def two() -> str:
            return "2"

        self.assertEqual((one(), two()), ("1", "2"))
        self.assertEqual([tool.name for tool in tools], ["one", "second"])
        self.assertEqual(tools.definitions()[1]["timeoutMs"], 2000)

    def test_return_values_become_results(self) -> None:
        image = Image(b"png", "image/png")
        block = {"type": "image", "data": "cG5n", "mimeType": "image/png"}

        def text(value: str) -> dict[str, object]:
            return {"content": [{"type": "text", "text": value}]}

        table: list[tuple[object, dict[str, object]]] = [
            ("words", text("words")),
            (None, text("done")),
            ({"a": [1, "ü"]}, text('{"a": [1, "ü"]}')),
            (3, text("3")),
            (image, {"content": [block]}),
            (ToolResult("see", images=[image]), {"content": [{"type": "text", "text": "see"}, block]}),
            (ToolResult("x", details={"n": 1}), {**text("x"), "details": {"n": 1}}),
        ]
        for value, expected in table:
            with self.subTest(value=value):
                self.assertEqual(result_of(value).wire(), expected)

    def test_what_cannot_be_json_is_an_error_result(self) -> None:
        self.assertIs(result_line("host_1", object())["isError"], True)

    def test_an_exception_without_text_is_named(self) -> None:
        result = error_line("host_1", KeyError())["result"]
        self.assertEqual(result, {"content": [{"type": "text", "text": "KeyError"}]})


if __name__ == "__main__":
    unittest.main()
