//! How a model writes calls, as its chat template tells.

use prefix::Tokenizer;
use prefix_server::tools::format::FORMATS;
use prefix_server::tools::style::{Chosen, Style};
use serde_json::{json, Value};

use crate::support::golden;

/// The tokenizer of a tiny model with another template and with these tokens besides; special ones are in no text.
fn tokenizer(template: &str, special: &[&str], others: &[&str]) -> Tokenizer {
    let folder = golden("qwen3-words");
    let read = |name| std::fs::read_to_string(folder.join(name)).unwrap();
    let parse = |text: String| serde_json::from_str::<Value>(&text).unwrap();
    let mut config = parse(read("tokenizer_config.json"));
    config["chat_template"] = json!(template);
    let mut model = parse(read("tokenizer.json"));
    let added = model["added_tokens"].as_array_mut().unwrap();
    let first = added.last().unwrap()["id"].as_u64().unwrap() + 1;
    let special = special.iter().map(|name| (name, true));
    let others = others.iter().map(|name| (name, false));
    for (id, (name, is_special)) in (first..).zip(special.chain(others)) {
        added.push(
            json!({"id": id, "content": name, "special": is_special, "single_word": false,
            "lstrip": false, "rstrip": false, "normalized": false}),
        );
    }
    Tokenizer::from_json(&model.to_string(), Some(&config.to_string())).unwrap()
}

fn style(tokenizer: &Tokenizer) -> (&'static str, bool, bool) {
    let style = Style::of(tokenizer, Chosen::Template);
    let name = style.format.map_or("none", |format| format.name);
    (name, style.several, style.short_ids)
}

/// Messages in the markup of Qwen; what an assistant writes besides its content is to be put in.
fn chatml(calls: &str) -> String {
    format!(
        "{{% for tool in tools %}}{{{{ tool | tojson }}}}\n{{% endfor %}}{{% for message in messages %}}<|im_start|>\
         {{{{ message.role }}}}\n{{{{ message.content }}}}{calls}<|im_end|>\n{{% endfor %}}\
         {{% if add_generation_prompt %}}<|im_start|>assistant\n{{% endif %}}"
    )
}

const HERMES: &str =
    "{% for call in message.tool_calls %}\n<tool_call>\n{\"name\": \"{{ call.function.name }}\", \
    \"arguments\": {{ call.function.arguments | tojson }}}\n</tool_call>{% endfor %}";

#[test]
fn the_template_of_a_model_tells_how_it_writes_calls() {
    let marks = ["<tool_call>", "</tool_call>"];
    // A token or several, and thoughts before it.
    for template in [
        chatml(HERMES),
        chatml(&format!("{{% if loop.last %}}<think>\n\n</think>\n\n{{% endif %}}{HERMES}")),
        // A prompt that opens a thought.
        chatml(HERMES).replace("assistant\n{% endif", "assistant\n<think>\n{% endif"),
        // Of Hermes 2, where the arguments come first.
        chatml("{% for call in message.tool_calls %}\n<tool_call>\n{ \"arguments\": {{ call.function.arguments | tojson }}, \
            \"name\": \"{{ call.function.name }}\"}\n</tool_call> {% endfor %}"),
    ] {
        assert_eq!(style(&tokenizer(&template, &[], &[])), ("hermes", true, false));
        assert_eq!(style(&tokenizer(&template, &[], &marks)), ("hermes", true, false));
    }
    let mistral = |id: &str| {
        chatml(&format!(
            "{{% if message.tool_calls %}}[TOOL_CALLS] [{{% for call in message.tool_calls %}}\
             {{% if call.id | length {id} %}}{{{{ raise_exception('an id of 9 letters') }}}}{{% endif %}}\
             {{{{ (call.function | tojson)[:-1] }}}}, \"id\": \"{{{{ call.id }}}}\"}}{{% if not loop.last %}}, {{% endif %}}\
             {{% endfor %}}]{{% endif %}}"
        ))
    };
    for mark in [&["[TOOL_CALLS]"][..], &[]] {
        assert_eq!(
            style(&tokenizer(&mistral("!= 9"), mark, &[])),
            ("mistral", true, true)
        );
        assert_eq!(
            style(&tokenizer(&mistral("> 99"), mark, &[])),
            ("mistral", true, false)
        );
    }
    let llama = chatml(
        "{% if message.tool_calls | length > 1 %}{{ raise_exception('one call') }}{% endif %}\
         {% for call in message.tool_calls %}{\"name\": \"{{ call.function.name }}\", \
         \"parameters\": {{ call.function.arguments | tojson }}}{% endfor %}",
    );
    assert_eq!(
        style(&tokenizer(&llama, &[], &[])),
        ("llama3_json", false, false)
    );
    let phi = chatml(
        "{% for call in message.tool_calls %}<|tool_call|>{{ call.function | tojson }}<|/tool_call|>{% endfor %}",
    );
    let marks = ["<|tool_call|>", "<|/tool_call|>"];
    assert_eq!(
        style(&tokenizer(&phi, &[], &marks)),
        ("phi4_mini", true, false)
    );
    assert_eq!(style(&tokenizer(&phi, &marks, &[])), ("json", true, false));
    // With a tag for each argument, as Qwen 3.5, behind an empty thought.
    let tags = chatml(
        "{% if message.tool_calls %}<think>\n\n</think>\n\n{% endif %}{% for call in message.tool_calls %}\
         {% if not loop.first %}\n{% endif %}<tool_call>\n<function={{ call.function.name }}>\n\
         {% for name, value in call.function.arguments | items %}<parameter={{ name }}>\n{{ value }}\n</parameter>\n\
         {% endfor %}</function>\n</tool_call>{% endfor %}",
    );
    let toolcall = chatml(
        "{% if message.tool_calls %}\n\n<TOOLCALL>[{% for call in message.tool_calls %}{\"name\": \"{{ call.function.name }}\", \
         \"arguments\": {{ call.function.arguments | tojson }}}{% if not loop.last %}, {% endif %}{% endfor %}]</TOOLCALL>\n\
         {% endif %}",
    );
    let python = |first: &str, between: &str, last: &str| {
        chatml(&format!(
            "{{% if message.tool_calls %}}{first}{{% for call in message.tool_calls %}}{{{{ call.function.name }}}}(\
             {{% for name, value in call.function.arguments | items %}}{{{{ name }}}}='{{{{ value }}}}'{{% endfor %}})\
             {{% if not loop.last %}}{between}{{% endif %}}{{% endfor %}}{last}{{% endif %}}"
        ))
    };
    let marks = ["<|tool_call_start|>", "<|tool_call_end|>"];
    for (template, special, name) in [
        (tags, &[][..], "qwen3_coder"),
        (toolcall, &[], "nemotron_json"),
        (
            python("<|tool_call_start|>[", ", ", "]<|tool_call_end|>"),
            &marks,
            "pythonic",
        ),
        (python("[", ", ", "]"), &[], "pythonic"),
        (
            python("<function_calls>\n", "\n", "\n</function_calls>"),
            &[],
            "olmo3",
        ),
    ] {
        assert_eq!(
            style(&tokenizer(&template, special, &[])),
            (name, true, false),
            "{template}"
        );
    }
    // None, one of another kind, and one that takes no calls.
    for template in [
        chatml(""),
        chatml("{% for call in message.tool_calls %}{{ call.function.name }}({{ call.function.arguments }}){% endfor %}"),
        chatml("{% if message.tool_calls %}{{ raise_exception('no') }}{% endif %}"),
        "{{ nothing() }}".to_string(),
    ] {
        assert_eq!(style(&tokenizer(&template, &[], &[])), ("none", false, false), "{template}");
    }
}

#[test]
fn a_format_that_is_named_is_read_whatever_the_template_has() {
    let plain = tokenizer(&chatml(""), &[], &[]);
    for name in FORMATS.each_ref().map(|format| format.name) {
        let style = Style::of(&plain, name.parse().unwrap());
        assert_eq!(style.format.unwrap().name, name);
        assert!(style.several && !style.short_ids);
    }
    assert_eq!(Style::of(&plain, Chosen::None).format, None);
    let hermes = tokenizer(&chatml(HERMES), &[], &[]);
    assert_eq!(Style::of(&hermes, Chosen::None).format, None);
}
