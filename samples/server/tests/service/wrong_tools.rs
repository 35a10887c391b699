//! Tools and choices of them that make no sense, each named with its place.

use serde_json::{json, Value};

use crate::calls::{body, named, CHATS};
use crate::support::start;

#[test]
fn what_is_wrong_with_tools_is_named_with_its_place() {
    let service = start(|config| config.max_requests = 4);
    let function = |function: Value| {
        json!({"tools": [{"type": "function", "function": {"name": "a"}},
        {"type": "function", "function": function}]})
    };
    let needs = |parameters: Value| {
        let mut fields = function(json!({"name": "b", "parameters": parameters}));
        fields["tool_choice"] = json!("required");
        fields
    };
    let many: Vec<Value> = (0..1001).map(|n| named(&format!("f{n}"))).collect();
    for (fields, param, why) in [
        (json!({"tools": {"a": 1}}), "tools", "is not a list"),
        (json!({"tools": [5]}), "tools", "[0] is not an object"),
        (
            json!({"tools": many}),
            "tools",
            "has 1001 tools, the limit is 1000",
        ),
        (
            json!({"tools": [{"type": "function"}]}),
            "tools[0].function",
            "is missing",
        ),
        (
            json!({"tools": [{"type": "custom", "function": {"name": "a"}}]}),
            "tools[0].type",
            "\"custom\"",
        ),
        (
            json!({"tools": [{"type": "function", "function": "a"}]}),
            "tools[0].function",
            "is not an object",
        ),
        (function(json!({})), "tools[1].function.name", "is missing"),
        (
            function(json!({"name": 5})),
            "tools[1].function.name",
            "integer `5`",
        ),
        (
            function(json!({"name": ""})),
            "tools[1].function.name",
            "has 0 characters; a name has from 1 to 128",
        ),
        (
            function(json!({"name": "a".repeat(129)})),
            "tools[1].function.name",
            "has 129 characters",
        ),
        (
            function(json!({"name": "a b"})),
            "tools[1].function.name",
            "is \"a b\", with ' '",
        ),
        (
            function(json!({"name": "a"})),
            "tools[1].function.name",
            "is \"a\", as is tools[0].function.name",
        ),
        (
            function(json!({"name": "b", "description": 1})),
            "tools[1].function.description",
            "integer `1`",
        ),
        (
            function(json!({"name": "b", "strict": "yes"})),
            "tools[1].function.strict",
            "\"yes\"",
        ),
        (
            function(json!({"name": "b", "parameters": []})),
            "tools[1].function.parameters",
            "is not an object",
        ),
        (
            function(json!({"name": "b", "parameters": {"type": "string"}})),
            "tools[1].function.parameters.type",
            "is \"string\"; arguments are of type \"object\"",
        ),
        (
            needs(json!({"type": "object", "not": {}})),
            "tools[1].function.parameters",
            "it has \"not\"",
        ),
        (
            needs(json!({"properties": {"a": {"type": "hat"}}})),
            "tools[1].function.parameters",
            "hat",
        ),
        (
            needs(json!({"properties": {"a": {"$ref": "#/$defs/A"}}})),
            "tools[1].function.parameters",
            "names nothing",
        ),
        (
            json!({"tool_choice": "any"}),
            "tool_choice",
            "is \"any\"; served are \"none\", \"auto\", \"required\"",
        ),
        (json!({"tool_choice": 5}), "tool_choice", "is not an object"),
        (json!({"tool_choice": {}}), "tool_choice.type", "is missing"),
        (
            json!({"tool_choice": {"type": "custom"}}),
            "tool_choice.type",
            "\"custom\"",
        ),
        (
            json!({"tool_choice": {"type": "function"}}),
            "tool_choice.function",
            "is missing",
        ),
        (
            json!({"tool_choice": named("nowhere")}),
            "tool_choice.function.name",
            "\"nowhere\", which is none of tools",
        ),
        (
            json!({"tools": null, "tool_choice": "required"}),
            "tool_choice",
            "there are no tools",
        ),
        (
            json!({"tools": [], "tool_choice": named("stop")}),
            "tool_choice",
            "there are no tools",
        ),
        (
            json!({"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}}),
            "tool_choice.allowed_tools.tools",
            "is empty",
        ),
        (
            json!({"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "none", "tools": [named("stop")]}}}),
            "tool_choice.allowed_tools.mode",
            "\"none\"",
        ),
        (
            json!({"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [named("x")]}}}),
            "tool_choice.allowed_tools.tools[0].function.name",
            "\"x\"",
        ),
        (
            json!({"parallel_tool_calls": "no"}),
            "parallel_tool_calls",
            "\"no\"",
        ),
        (
            json!({"tool_choice": "required", "response_format": {"type": "json_object"}}),
            "response_format",
            "asks for one form of the text, tool_choice for another",
        ),
        (
            json!({"tool_choice": named("stop"), "guided_regex": "a"}),
            "guided_regex",
            "tool_choice for another",
        ),
    ] {
        let error = service.post(CHATS, &body(fields.clone())).json(400)["error"].clone();
        assert_eq!(error["param"], param, "{fields}: {error}");
        let message = error["message"].as_str().unwrap();
        assert!(
            message.starts_with(&format!("{param}: ")) && message.contains(why),
            "{message}"
        );
    }
    // More schemas than a grammar has room for.
    let long = json!({"properties": {"a": {"enum": ["a".repeat(300_000)]}}});
    let error = service.post(CHATS, &body(needs(long))).json(400)["error"].clone();
    assert_eq!(error["param"], "tool_choice", "{error}");
    assert_eq!(service.metric("prefix_server_in_flight"), 0.0);
}
