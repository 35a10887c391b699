//! Conversations with tools, in the form of OpenAI's clients.

use prefix::text::Chat;
use prefix::{Engine, Options, Tokenizer};
use serde_json::json;

use crate::support::{golden, start_with};

/// As templates of models with tools do it: of an object they print JSON, and a content they put behind a text.
const TEMPLATE: &str = "{% for message in messages %}{{ message.role + ': ' + message.content }}\
    {% for call in message.tool_calls %}{{ call.function.arguments | tojson }}{% endfor %}{% endfor %}";

#[test]
fn a_template_reads_what_a_tool_was_called_with() {
    let folder = golden("qwen3-words");
    let options = Options::new().unwrap().set("cache_bytes", "16M").unwrap();
    let engine = Engine::open_with(&folder, &options).unwrap();
    let read = |name| std::fs::read_to_string(folder.join(name)).unwrap();
    let mut config: serde_json::Value =
        serde_json::from_str(&read("tokenizer_config.json")).unwrap();
    config["chat_template"] = json!(TEMPLATE);
    let tokenizer = Tokenizer::from_json(&read("tokenizer.json"), Some(&config.to_string()));
    let tokenizer = tokenizer.unwrap();
    let service = start_with((engine, tokenizer.clone()), |_| {});

    let call = |arguments: &str, content: &str| {
        format!(
            "{{\"role\": \"assistant\"{content}, \"tool_calls\": [{{\"id\": \"1\", \"type\": \"function\", \
             \"function\": {{\"name\": \"find\", \"arguments\": {arguments}}}}}]}}"
        )
    };
    let object = r#"{"where": "a \"town\"", "how": [1, 2]}"#;
    let chat = Chat::new()
        .user("a")
        .message_json(call(object, ", \"content\": \"\""))
        .message("tool", "b");
    let expected = tokenizer.chat_tokens(&chat).unwrap().len();
    let text = json!(object).to_string();
    for content in [
        ", \"content\": \"\"",
        ", \"content\": null",
        "",
        ", \"content\": []",
    ] {
        for arguments in [&text, object] {
            let body = format!(
                "{{\"max_tokens\": 1, \"messages\": [{{\"role\": \"user\", \"content\": \"a\"}}, {}, \
                 {{\"role\": \"tool\", \"tool_call_id\": \"1\", \"content\": \"b\"}}]}}",
                call(arguments, content)
            );
            let asked = service.open("POST", "/v1/chat/completions", &[], &body);
            let usage = asked.answer().json(200)["usage"].clone();
            assert_eq!(usage["prompt_tokens"], expected, "{body}");
        }
    }
}
