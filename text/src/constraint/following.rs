//! A text that is written by rules: which tokens may come next.

use super::said::said;
use super::vocabulary::Vocabulary;
use llguidance::Matcher;
use std::sync::Arc;

pub struct Following {
    matcher: Matcher,
    vocabulary: Arc<Vocabulary>,
    /// Tokens of the model; its vocabulary and that of the tokenizer may each be the larger one.
    size: usize,
}

impl Following {
    pub fn new(matcher: Matcher, vocabulary: Arc<Vocabulary>, size: usize) -> Following {
        Following {
            matcher,
            vocabulary,
            size,
        }
    }

    /// Sets the bits of the tokens that may come next: of those that end a text, where it is whole.
    pub fn allow(&mut self, mask: &mut [u32]) -> Result<(), String> {
        let allowed = self
            .matcher
            .compute_mask_or_eos()
            .map_err(|e| said(&e.to_string()))?;
        let written = self.vocabulary.written().as_slice();
        let both = allowed.as_slice().iter().zip(written);
        for (word, (allowed, written)) in mask.iter_mut().zip(both) {
            *word = allowed & written;
        }
        if let (Some(last), rest @ 1..) = (mask.get_mut(self.size / 32), self.size % 32) {
            *last &= (1 << rest) - 1;
        }
        Ok(())
    }

    /// The text goes on behind this token.
    pub fn accept(&mut self, token: u32) -> Result<(), String> {
        self.matcher
            .consume_token(token)
            .map_err(|e| said(&e.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::validity::fault;
    use super::super::{Compiled, Rules};
    use crate::load::{from_texts, open};
    use crate::random::random;
    use crate::text::Text;
    use fancy_regex::Regex;
    use serde_json::{json, Value};
    use std::path::Path;
    use std::sync::LazyLock;
    use tokenizers::pre_tokenizers::byte_level::ByteLevel;

    /// Words beyond single bytes: some end several parts of JSON, and some begin others.
    const WORDS: [&str; 23] = [
        "{\"",
        "\":",
        "\", \"",
        "\"}",
        "]}",
        "}]",
        "},",
        "[[",
        "[]",
        "true",
        "false",
        "null",
        "12",
        "007",
        "-1",
        "e9",
        "name",
        " name",
        "\\n",
        "\\u00",
        "\u{e9}t\u{e9}",
        "\u{6f22}\u{5b57}",
        "  ",
    ];

    fn special(id: usize, content: &str) -> Value {
        json!({"id": id, "content": content, "special": true, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false})
    }

    /// A byte-level vocabulary, with a special token whose name is JSON, and one that ends a text.
    fn byte_level() -> Text {
        let mut alphabet: Vec<char> = ByteLevel::alphabet().into_iter().collect();
        alphabet.sort();
        let mut words: Vec<String> = alphabet.iter().map(char::to_string).collect();
        let spelt = |word: &str| word.replace(' ', "\u{120}");
        words.extend(
            WORDS
                .iter()
                .filter(|word| word.is_ascii())
                .map(|word| spelt(word)),
        );
        let vocab: Value = words
            .iter()
            .enumerate()
            .map(|(id, word)| (word.clone(), json!(id)))
            .collect::<serde_json::Map<_, _>>()
            .into();
        let n = words.len();
        let file = json!({"model": {"type": "BPE", "vocab": vocab, "merges": []}, "decoder": {"type": "ByteLevel",
            "add_prefix_space": false, "trim_offsets": false, "use_regex": false},
            "added_tokens": [special(n, "{}"), special(n + 1, "<|im_end|>")]});
        Text::new(from_texts(&file.to_string(), None).unwrap()).unwrap()
    }

    /// One of SentencePiece: bytes have tokens of their own beside those of characters.
    fn sentences() -> Text {
        let mut words = vec!["<unk>".to_string(), "<s>".to_string(), "</s>".to_string()];
        words.extend((0..256).map(|byte| format!("<0x{byte:02X}>")));
        words.extend((' '..='~').map(|c| c.to_string().replace(' ', "\u{2581}")));
        words.extend(WORDS.iter().map(|word| word.replace(' ', "\u{2581}")));
        let vocab: Value = words
            .iter()
            .enumerate()
            .map(|(id, word)| (word.clone(), json!(id)))
            .collect::<serde_json::Map<_, _>>()
            .into();
        let file = json!({"model": {"type": "BPE", "vocab": vocab, "merges": [], "unk_token": "<unk>", "byte_fallback": true},
            "decoder": {"type": "Sequence", "decoders": [
                {"type": "Replace", "pattern": {"String": "\u{2581}"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]},
            "added_tokens": [special(0, "<unk>"), special(1, "<s>"), special(2, "</s>")]});
        let config = json!({"eos_token": "</s>"}).to_string();
        Text::new(from_texts(&file.to_string(), Some(&config)).unwrap()).unwrap()
    }

    /// Those that were fetched.
    fn real() -> Vec<Text> {
        let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../build/models");
        let names = [
            "SmolLM2-135M-Instruct.Q4_1.gguf",
            "qwen3-tokenizer/tokenizer.json",
        ];
        let sources = names
            .iter()
            .filter_map(|name| open(&models.join(name)).ok());
        sources.map(|source| Text::new(source).unwrap()).collect()
    }

    fn set(mask: &[u32]) -> Vec<i32> {
        let words = mask.iter().enumerate().filter(|(_, word)| **word != 0);
        words
            .flat_map(|(at, word)| {
                let bits = (0..32).filter(move |bit| word >> bit & 1 == 1);
                bits.map(move |bit| at as i32 * 32 + bit)
            })
            .collect()
    }

    /// A text of tokens that are drawn from those that may come, after some of which each part is closed that can be;
    /// None when it still goes on.
    fn written(text: &Text, compiled: &Compiled, seed: u64) -> Option<String> {
        let (free, most) = (seed % 40, 400);
        let mut draw = random(seed);
        let mut following = compiled.begin();
        let mut tokens = Vec::new();
        for step in 0..most {
            let mut mask = vec![0; text.vocab_size().div_ceil(32) as usize];
            following.allow(&mut mask).unwrap();
            let all = set(&mask);
            assert!(!all.is_empty());
            let (ends, all): (Vec<i32>, Vec<i32>) =
                all.into_iter().partition(|id| text.ends().contains(id));
            if !ends.is_empty() && (step >= free || draw(3) == 0 || all.is_empty()) {
                return Some(text.decode(&tokens, true).unwrap());
            }
            let closes = |id: &&i32| {
                let bytes = text.token_bytes(**id).unwrap();
                [&b"\""[..], b"}", b"]"].contains(&&*bytes)
            };
            let closing = all.iter().find(closes).filter(|_| step >= free);
            let token = *closing.unwrap_or(&all[draw(all.len() as u64) as usize]);
            following.accept(token as u32).unwrap();
            tokens.push(token);
        }
        None
    }

    /// And how many texts are written with each.
    static VOCABULARIES: LazyLock<Vec<(Text, u64)>> = LazyLock::new(|| {
        let small = [(byte_level(), 40), (sentences(), 40)];
        let real = real().into_iter().map(|text| (text, 4));
        small.into_iter().chain(real).collect()
    });

    /// Texts of each vocabulary, and how often one did not come to its end.
    fn texts(rules: &Rules, mut read: impl FnMut(&str)) -> usize {
        let mut unfinished = 0;
        for (text, seeds) in VOCABULARIES.iter() {
            let compiled =
                Compiled::new(rules, text.vocab_size() as usize, || text.vocabulary()).unwrap();
            for seed in 0..*seeds {
                match written(text, &compiled, seed) {
                    Some(text) => read(&text),
                    None => unfinished += 1,
                }
            }
        }
        unfinished
    }

    #[test]
    fn a_text_that_ends_is_json_of_its_schema() {
        let person = json!({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0, "maximum": 150}},
            "required": ["name", "age"], "additionalProperties": false});
        for schema in [
            json!({"type": "object"}),
            json!({}),
            json!(true),
            person.clone(),
            json!({"type": "array", "items": person, "minItems": 1, "maxItems": 3}),
            json!({"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "array", "items": {"type": "boolean"}}},
                "required": ["b"]}}, "required": ["a"]}),
            json!({"enum": ["red", "green", 3, null, {"x": [1, "y"]}]}),
            json!({"type": ["string", "null"], "enum": ["\u{e9}t\u{e9}", "\"quoted\"\n", null]}),
            json!({"const": {"kind": "x", "n": [1, 2.5]}}),
            json!({"type": "number", "minimum": -2.5, "exclusiveMaximum": 17}),
            json!({"type": "integer", "exclusiveMinimum": -100, "maximum": 1000, "multipleOf": 7}),
            json!({"type": "string", "minLength": 2, "maxLength": 5}),
            json!({"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3,5}$"}),
            json!({"type": "string", "format": "date"}),
            json!({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": {"type": "null"}, "minItems": 2}),
            json!({"anyOf": [{"type": "string", "maxLength": 3}, {"type": "array", "items": {"type": "integer"}}]}),
            json!({"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
                {"type": "object", "properties": {"a": {"minimum": 10}, "b": {"type": "string"}}, "required": ["b"]}]}),
            json!({"$ref": "#/$defs/Node", "$defs": {"Node": {"type": "object", "properties": {"value": {"type": "integer"},
                "next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}], "default": null}}, "required": ["value"],
                "additionalProperties": false, "title": "Node"}}}),
            // As pydantic writes a tagged union.
            json!({"properties": {"pet": {"discriminator": {"mapping": {"cat": "#/$defs/Cat", "dog": "#/$defs/Dog"}, "propertyName": "kind"},
                "oneOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}]}}, "required": ["pet"], "type": "object", "$defs": {
                "Cat": {"type": "object", "properties": {"kind": {"const": "cat", "type": "string"}, "lives": {"type": "integer"}}, "required": ["kind", "lives"]},
                "Dog": {"type": "object", "properties": {"kind": {"const": "dog", "type": "string"}, "name": {"type": "string"}}, "required": ["kind"]}}}),
            json!({"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 1}),
        ] {
            let mut read = 0;
            let unfinished = texts(&Rules::Schema(schema.to_string()), |text| {
                read += 1;
                let value: Value = match serde_json::from_str(text) {
                    Ok(value) => value,
                    // JSON has no limit for numbers; the reader has.
                    Err(e) if e.to_string().contains("number out of range") => return,
                    Err(e) => panic!("{e}: {text} of {schema}"),
                };
                assert_eq!(fault(&schema, &value, &schema), None, "{text}");
            });
            assert!(
                read >= 40 && unfinished <= read,
                "{read} texts of {schema}, {unfinished} unfinished"
            );
        }
    }

    #[test]
    fn keys_come_in_the_order_of_the_schema() {
        let schema = json!({"type": "object", "properties": {"z": {"type": "integer"}, "a": {"type": "integer"}, "m": {"type": "integer"}},
            "required": ["m", "a"], "additionalProperties": false});
        texts(&Rules::Schema(schema.to_string()), |text| {
            let Ok(Value::Object(found)) = serde_json::from_str(text) else {
                panic!("{text}");
            };
            let found: String = found.keys().cloned().collect();
            assert!(["zam", "am"].contains(&&*found), "{text}");
        });
    }

    /// Else a model may write nothing else until its tokens are used up.
    #[test]
    fn white_space_in_json_has_an_end() {
        let compact = json!({"type": "array", "items": {"type": "integer"}, "x-guidance": {"whitespace_flexible": false}});
        texts(&Rules::Schema(compact.to_string()), |text| {
            assert_eq!(text, text.replace([' ', '\n'], ""))
        });
        let text = byte_level();
        let id = |word: &str| text.token_id(word).unwrap();
        for schema in [json!({"type": "array"}), json!({}), json!(true)] {
            let rules = Rules::Schema(schema.to_string());
            let compiled =
                Compiled::new(&rules, text.vocab_size() as usize, || text.vocabulary()).unwrap();
            let mut following = compiled.begin();
            following.accept(id("[")).unwrap();
            for _ in 0..64 {
                following.accept(id("\u{120}")).unwrap();
            }
            assert!(following.accept(id("\u{120}")).is_err(), "{schema}");
        }
    }

    #[test]
    fn a_text_that_ends_matches_its_regular_expression() {
        for pattern in [
            "yes|no",
            "[a-c]{2,4}@[a-z]{1,9}\\.(com|org)",
            "\\d{4}-\\d\\d",
            "(a|b)*abb",
            "[\u{e9}\u{6f22}]{1,3}/\\\\x",
            "(?i)select [a-z]{1,5}",
            "[^\"\\n]{3}",
            "\\+?[0-9 ]{3,6}\n",
        ] {
            let whole = Regex::new(&format!("^(?:{pattern})$")).unwrap();
            let mut read = 0;
            texts(&Rules::Regex(pattern.to_string()), |text| {
                assert!(whole.is_match(text).unwrap(), "{text:?} of {pattern:?}");
                read += 1;
            });
            assert!(read >= 40, "{read} texts of {pattern}");
        }
    }

    #[test]
    fn a_text_that_ends_is_of_its_grammar() {
        let sums = "start: sum\nsum: part (\"+\" part)*\npart: NUMBER | \"(\" sum \")\"\nNUMBER: /[0-9]{1,3}/\n";
        texts(&Rules::Grammar(sums.to_string()), |text| {
            let depth = text.chars().try_fold(0i32, |depth, c| match c {
                '(' => Some(depth + 1),
                ')' => Some(depth - 1).filter(|depth| *depth >= 0),
                _ => Some(depth),
            });
            assert_eq!(depth, Some(0), "{text}");
            assert!(
                Regex::new("^[(]*[0-9]{1,3}([)]*[+][(]*[0-9]{1,3})*[)]*$")
                    .unwrap()
                    .is_match(text)
                    .unwrap(),
                "{text}"
            );
        });
        let calls =
            "start: \"call \" %json {\"type\": \"array\", \"items\": {\"type\": \"integer\"}}\n";
        texts(&Rules::Grammar(calls.to_string()), |text| {
            let numbers: Vec<i128> =
                serde_json::from_str(text.strip_prefix("call ").unwrap()).unwrap();
            assert!(numbers.len() < 400);
        });
    }

    #[test]
    fn special_tokens_and_those_of_no_text_never_come() {
        let text = byte_level();
        let size = text.vocab_size() as usize;
        let special = size as i32 - 2;
        assert_eq!(text.token_bytes(special).unwrap(), b"{}");
        for (rules, whole) in [
            (Rules::Schema("{}".into()), "{}"),
            (Rules::Regex("(?s).*".into()), ""),
            (Rules::Grammar("start: <[*]>+\n".into()), "{"),
        ] {
            // A model may have tokens that its tokenizer does not have, and the other way round.
            for model in [size, size + 100, size + 7] {
                let compiled = Compiled::new(&rules, model, || text.vocabulary()).unwrap();
                let mut following = compiled.begin();
                for byte in whole.chars() {
                    let mut mask = vec![0; model.div_ceil(32)];
                    following.allow(&mut mask).unwrap();
                    let all = set(&mask);
                    assert!(!all.contains(&special) && all.iter().all(|id| *id < size as i32));
                    following
                        .accept(text.token_id(&byte.to_string()).unwrap())
                        .unwrap();
                }
                let mut mask = vec![0; model.div_ceil(32)];
                following.allow(&mut mask).unwrap();
                assert!(set(&mask).contains(&text.ends()[0]), "{rules:?}");
                assert!(!set(&mask).contains(&special));
            }
        }
        // The last words of this one are behind the tokens of the model.
        let text = sentences();
        let size = text.vocab_size() as usize;
        for model in size - 5..size {
            let rules = Rules::Regex("(?s).*".into());
            let compiled = Compiled::new(&rules, model, || text.vocabulary()).unwrap();
            let mut mask = vec![0; model.div_ceil(32)];
            compiled.begin().allow(&mut mask).unwrap();
            assert_eq!(set(&mask).last(), Some(&(model as i32 - 1)));
        }
        let text = byte_level();
        let size = text.vocab_size() as usize;
        // Its end is behind the tokens of the model.
        let rules = Rules::Regex("a".into());
        assert!(Compiled::new(&rules, size - 1, || text.vocabulary()).is_err());
    }

    #[test]
    fn the_thread_of_an_engine_need_not_have_a_large_stack() {
        let text = byte_level();
        let rules = Rules::Schema(json!({"type": "array", "items": {"$ref": "#"}}).to_string());
        let compiled =
            Compiled::new(&rules, text.vocab_size() as usize, || text.vocabulary()).unwrap();
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(128 << 10);
            let run = || {
                (0..20)
                    .filter_map(|seed| written(&text, &compiled, seed))
                    .count()
            };
            let all = thread.spawn_scoped(scope, run).unwrap().join().unwrap();
            assert!(all > 10, "{all}");
        });
    }

    #[test]
    fn tokenizers_whose_tokens_do_not_add_up_have_no_vocabulary() {
        let words = json!({"?": 0, "hello": 1, "world": 2, "##s": 3, "</s>": 4});
        for decoder in [
            json!(null),
            json!({"type": "WordPiece", "prefix": "##", "cleanup": true}),
        ] {
            let file = json!({"model": {"type": "WordLevel", "unk_token": "?", "vocab": words}, "decoder": decoder});
            let text =
                Text::new(from_texts(&file.to_string(), Some(r#"{"eos_token": "</s>"}"#)).unwrap())
                    .unwrap();
            let error = Compiled::new(&Rules::Regex("hello".into()), 5, || text.vocabulary())
                .err()
                .unwrap();
            assert_eq!(
                error.message,
                "option regex: the texts of this tokenizer are not those of its tokens one after the other, which \
                 structured output needs"
            );
        }
    }
}
