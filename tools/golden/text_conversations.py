"""Conversations for chat templates: name -> (messages, options of prefix_tokenizer_chat_text)."""

NOW = "2026-03-07T09:05:04"

_WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather <now> at a place & its \"feel\".\nSecond line.",
        "parameters": {
            "type": "object",
            "properties": {
                "place": {"type": "string", "description": "City, e.g. Zürich or 東京"},
                "unit": {"type": "string", "enum": ["°C", "°F"], "default": "°C"},
                "days": {"type": "array", "items": {"type": "integer"}, "minItems": 1},
                "exact": {"type": ["boolean", "null"], "default": None},
                "limit": {"type": "number", "default": 1.0, "maximum": 1e22},
                "nested": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "object"}}, "required": ["a"]},
            },
            "required": ["place"],
        },
        "return": {"type": "string"},
    },
}
_TIME = {
    "type": "function",
    "function": {"name": "time", "description": "", "parameters": {"type": "object", "properties": {}}},
}
_BARE = {"name": "bare", "description": "no wrapper", "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}}}


def _user(text):
    return {"role": "user", "content": text}


def _assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def _system(text):
    return {"role": "system", "content": text}


def _call(name, arguments, identity="abcdefghi"):
    return {"type": "function", "id": identity, "function": {"name": name, "arguments": arguments}}


def _tool(text, **more):
    return {"role": "tool", "content": text, **more}


_ASKED = [_user("What is the weather in Zürich?")]
_CALLED = [*_ASKED, _assistant("", tool_calls=[_call("get_weather", {"place": "Zürich", "days": [1, 2]})])]
_ANSWERED = [*_CALLED, _tool('{"temperature": 21.5, "sky": "☀"}', tool_call_id="abcdefghi", name="get_weather")]
_TWO_CALLS = [
    _system("Use functions."),
    *_ASKED,
    _assistant("Let me see.", tool_calls=[_call("get_weather", {"place": "Zürich"}), _call("time", {}, "123456789")]),
    _tool("21", tool_call_id="abcdefghi"),
    _tool("noon", tool_call_id="123456789"),
]
_THOUGHT = [
    _user("1+1?"),
    _assistant("<think>\nAdd one and one.\n</think>\n\nIt is 2."),
    _user("Sure?"),
]
_REASONED = [
    _user("1+1?"),
    _assistant("It is 2.", reasoning_content="Add one and one."),
]
_MANY = [turn for n in range(20) for turn in (_user(f"Question {n}: what is {n} + {n}?"), _assistant(f"It is {2 * n}."))]
_ODD = "  \n<|im_end|> {{ 7 * 7 }} {% if %} é😀\u200d\u2028 \"q\" 'a' \\ &amp;\t "

CONVERSATIONS = {
    "hello": ([_user("Hello!")], {}),
    "hello-closed": ([_user("Hello!")], {"add_generation_prompt": False}),
    "system": ([_system("You are brief."), _user("Hello!")], {}),
    "system-only": ([_system("You are brief.")], {}),
    "empty-user": ([_user("")], {}),
    "spaces": ([_system("  sys \n"), _user("\n  indented\n\n"), _assistant("  yes  \n"), _user(" \t ")], {}),
    "odd-characters": ([_system(_ODD), _user(_ODD), _assistant(_ODD), _user(_ODD)], {}),
    "turns": ([_user("Hi"), _assistant("Hello. How can I help?"), _user("Tell me a joke.")], {}),
    "turns-closed": ([_user("Hi"), _assistant("Hello.")], {"add_generation_prompt": False}),
    "turns-then-prompt": ([_user("Hi"), _assistant("Hello.")], {}),
    "many": ([_system("Sums."), *_MANY, _user("And now?")], {}),
    "many-closed": (_MANY, {"add_generation_prompt": False}),
    "long": ([_user("word " * 500)], {}),
    "two-users": ([_user("a"), _user("b")], {}),
    "two-assistants": ([_user("a"), _assistant("b"), _assistant("c")], {}),
    "assistant-first": ([_assistant("a"), _user("b")], {}),
    "two-systems": ([_system("a"), _user("b"), _system("c"), _user("d")], {}),
    "late-system": ([_user("a"), _system("b"), _user("c")], {}),
    "unknown-role": ([_user("a"), {"role": "critic", "content": "b"}], {}),
    "no-content": ([{"role": "user"}], {}),
    "null-content": ([_user("a"), _assistant(None)], {}),
    "number-content": ([_user(5)], {}),
    "list-content": ([{"role": "user", "content": [{"type": "text", "text": " What? "}, {"type": "image"}]}], {}),
    "list-system": ([{"role": "system", "content": [{"type": "text", "text": "S"}]}, _user("a")], {}),
    "extra-keys": ([{"role": "user", "content": "a", "name": "Ann", "x": {"y": [1, None]}}], {}),
    "no-messages": ([], {}),
    "think-off": ([_user("1+1?")], {"variables": {"enable_thinking": False}}),
    "think-on": ([_user("1+1?")], {"variables": {"enable_thinking": True}}),
    "think-off-system": ([_system("s"), _user("1+1?")], {"variables": {"enable_thinking": False}}),
    "think-off-closed": ([_user("1+1?")], {"variables": {"enable_thinking": False}, "add_generation_prompt": False}),
    "thinking-variable": ([_user("1+1?")], {"variables": {"thinking": True}}),
    "thought-before": (_THOUGHT, {}),
    "thought-last": (_THOUGHT[:2], {"add_generation_prompt": False}),
    "thought-last-prompt": (_THOUGHT[:2], {}),
    "thought-open": ([_user("a"), _assistant("<think>\nhalf a thought")], {"add_generation_prompt": False}),
    "reasoned": (_REASONED, {"add_generation_prompt": False}),
    "reasoned-before": ([*_REASONED, _user("Sure?")], {}),
    "reasoned-other-name": ([_user("1+1?"), _assistant("2", reasoning="one and one")], {"add_generation_prompt": False}),
    "reasoned-thinking-name": ([_user("1+1?"), _assistant("2", thinking="one and one")], {"add_generation_prompt": False}),
    "reasoned-null": ([_user("1+1?"), _assistant("2", reasoning_content=None)], {"add_generation_prompt": False}),
    "reasoned-calls": ([_user("a"), _assistant("", reasoning_content="hm", tool_calls=[_call("time", {})]), _tool("noon")], {}),
    "tools": (_ASKED, {"tools": [_WEATHER, _TIME]}),
    "tools-system": ([_system("You are brief."), *_ASKED], {"tools": [_WEATHER]}),
    "tools-empty": (_ASKED, {"tools": []}),
    "tools-null": (_ASKED, {"tools": None}),
    "tools-bare": (_ASKED, {"tools": [_BARE]}),
    "tools-no-user": ([_system("s")], {"tools": [_TIME]}),
    "tools-in-system-turn": (_ASKED, {"tools": [_WEATHER], "variables": {"tools_in_user_message": False}}),
    "tools-think-off": (_ASKED, {"tools": [_TIME], "variables": {"enable_thinking": False}}),
    "called": (_CALLED, {"tools": [_WEATHER], "add_generation_prompt": False}),
    "called-text-arguments": (
        [*_ASKED, _assistant("", tool_calls=[_call("get_weather", '{"place": "Zürich"}')])],
        {"tools": [_WEATHER], "add_generation_prompt": False},
    ),
    "called-null-content": ([*_ASKED, _assistant(None, tool_calls=[_call("time", {})])], {"tools": [_TIME]}),
    "called-flat": (
        [*_ASKED, _assistant("", tool_calls=[{"name": "time", "arguments": {"zone": None, "n": 1.0, "k": [True, 1e-7]}}])], {}),
    "called-no-tools": (_CALLED, {}),
    "called-short-id": ([*_ASKED, _assistant("", tool_calls=[_call("time", {}, "x")])], {"tools": [_TIME]}),
    "answered": (_ANSWERED, {"tools": [_WEATHER]}),
    "answered-object": ([*_CALLED, _tool({"content": {"t": 21.0, "ok": True}})], {"tools": [_WEATHER]}),
    "answered-then-said": ([*_ANSWERED, _assistant("Sunny, 21.5 °C."), _user("Thanks!")], {"tools": [_WEATHER]}),
    "two-calls": (_TWO_CALLS, {"tools": [_WEATHER, _TIME]}),
    "two-calls-said": ([*_TWO_CALLS, _assistant("It is noon and 21.")], {"tools": [_WEATHER, _TIME], "add_generation_prompt": False}),
    "user-that-answers": ([_user("a"), _assistant("b"), _user("<tool_response>\nx\n</tool_response>")], {}),
    "continued": ([_user("Count."), _assistant("One, two")], {"continue_final_message": True}),
    "continued-space": ([_user("Count."), _assistant("One, two, ")], {"continue_final_message": True}),
    "continued-spaces": ([_user("Count."), _assistant("  One,\n two \n\n")], {"continue_final_message": True}),
    "continued-user": ([_system("s"), _user("Once upon")], {"continue_final_message": True}),
    "continued-empty": ([_user("Count."), _assistant("")], {"continue_final_message": True}),
    "continued-repeated": ([_user("aa"), _assistant("aa"), _user("aa"), _assistant("aa")], {"continue_final_message": True}),
    "continued-list": (
        [_user("a"), {"role": "assistant", "content": [{"type": "text", "text": "One,"}, {"type": "image"}]}],
        {"continue_final_message": True},
    ),
    "continued-null": ([_user("a"), _assistant(None)], {"continue_final_message": True}),
    "continued-thought": ([_user("a"), _assistant("<think>\nhm\n</think>\n\nSo")], {"continue_final_message": True}),
    "continued-system": ([_system("You are")], {"continue_final_message": True}),
    "continued-tools": ([*_ASKED, _assistant("It is")], {"continue_final_message": True, "tools": [_TIME]}),
    "date-variable": ([_user("a")], {"variables": {"date_string": "1 Jan 2000"}}),
    "documents": (
        [_user("Who?\nAnd when?")],
        {"documents": [{"title": "the lamp", "text": " A lens\ngathers light. "}, {"text": "Bread rises."}]},
    ),
    "document": ([_user("Who?")], {"documents": [{"title": "x", "text": "y"}]}),
    "variables": ([_user("a")], {"variables": {"custom_tools": [_TIME], "thinking": True, "eos_token": "<END>"}}),
}
