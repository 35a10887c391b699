//! Recipes without a model, for the tests and for tests/fuzz.

use super::prompt::{Fields, Prompts, Truncate};
use super::recipe_file::parse;
use crate::error::Result;
use crate::text::Text;
use std::sync::Arc;

/// What a task does with a recipe before it meets an engine; for tests/fuzz.
pub fn try_recipe(text: &Arc<Text>, recipe: &str) -> Result<()> {
    let recipe = parse(recipe)?.recipe;
    let fields = Fields {
        instruction: &recipe.instruction,
        query: "who?",
        document: "a text with a few words, to be cut",
        label: "yes",
        labels: "yes, no".into(),
        index: 1,
        count: 2,
    };
    for prompt in recipe.prompts.values() {
        for truncate in [Truncate::Right, Truncate::Left] {
            // Refusals are as good as prompts.
            if let Ok(mut prompts) = Prompts::new(text, &recipe, prompt) {
                prompts.document_first();
                let _ = prompts.build(&fields, 1 << 20, truncate);
                let _ = prompts.build(&fields, 24, truncate);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::from_texts;

    /// A token for each character that can be seen.
    fn characters() -> Arc<Text> {
        let vocab: serde_json::Map<String, serde_json::Value> = (' '..='~')
            .enumerate()
            .map(|(id, c)| (c.to_string(), id.into()))
            .collect();
        let added = |id: i32, content: &str| {
            serde_json::json!({"id": id, "content": content, "special": true, "single_word": false, "lstrip": false,
                "rstrip": false, "normalized": false})
        };
        let tokenizer = serde_json::json!({"version": "1.0", "added_tokens": [added(95, "<s>"), added(96, "</s>")],
            "model": {"type": "BPE", "vocab": vocab, "merges": []}});
        let config = serde_json::json!({"bos_token": "<s>", "chat_template": "{% for m in messages %}<s>{{ m.role }}: \
            {{ m.content }}</s>{% endfor %}{{ x }}{% if add_generation_prompt %}<s>{% endif %}"});
        let loaded = from_texts(&tokenizer.to_string(), Some(&config.to_string())).unwrap();
        Arc::new(Text::new(loaded).unwrap())
    }

    /// The inputs of the fuzz target `recipe`, cut short and changed too, as tests/fuzz/corpus_test.cc does it with those of
    /// the targets that need no more than the public functions.
    #[test]
    fn what_a_fuzzer_found_is_a_recipe_or_is_refused() {
        let text = characters();
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fuzz/corpus/recipe");
        let (mut inputs, mut recipes) = (0, 0);
        for entry in std::fs::read_dir(folder).unwrap() {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            let mut tried = vec![bytes.clone()];
            for i in (1..=8).filter(|_| !bytes.is_empty()) {
                let mut changed = bytes.clone();
                changed[bytes.len() * i / 9] ^= 1 << (i % 8);
                tried.extend([changed, bytes[..bytes.len() * i / 9].to_vec()]);
            }
            for input in tried {
                inputs += 1;
                let Ok(recipe) = std::str::from_utf8(&input) else {
                    continue;
                };
                match try_recipe(&text, recipe) {
                    Ok(()) => recipes += 1,
                    Err(refusal) => {
                        assert_ne!(refusal.code, crate::error::Code::Internal, "{recipe}")
                    }
                }
            }
        }
        assert!(recipes > 0 && inputs > 100, "{recipes} of {inputs}");
    }
}
