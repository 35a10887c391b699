//! Tokens that the settings beside a tokenizer.json name. As in transformers all of them are found in a text, also
//! those that the vocabulary lacks: they get the ids behind it, in the order of the ids that the settings give them.

use crate::error::{quote, Error, Result};
use crate::pipeline::{self, Tokenizer};
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};
use tokenizers::AddedToken;

/// In this order they get ids where the vocabulary lacks them; those of other names come after.
const FIRST_ROLES: [&str; 7] = [
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
];

/// Whether every model may have this role.
pub fn is_standard(role: &str) -> bool {
    FIRST_ROLES.contains(&role)
}

/// A token is written as its text or as {"content": text, ...}.
pub fn token_text(value: &Value) -> Option<&str> {
    value
        .as_str()
        .or_else(|| value.get("content").and_then(Value::as_str))
}

fn token(value: &Value, special: bool) -> Option<AddedToken> {
    let flag = |name: &str| value.get(name).and_then(Value::as_bool);
    let special = special || flag("special") == Some(true);
    let token = AddedToken::from(token_text(value)?, special);
    let normalized = flag("normalized").unwrap_or(token.normalized);
    Some(
        token
            .single_word(flag("single_word") == Some(true))
            .lstrip(flag("lstrip") == Some(true))
            .rstrip(flag("rstrip") == Some(true))
            .normalized(normalized),
    )
}

/// Roles and their tokens: every `<role>_token`, and extra_special_tokens where that is an object.
pub fn roles(settings: &Map<String, Value>) -> impl Iterator<Item = (&str, &Value)> {
    let further = settings
        .get("extra_special_tokens")
        .and_then(Value::as_object);
    let first = FIRST_ROLES
        .iter()
        .filter_map(|key| settings.get_key_value(*key));
    let others = settings
        .iter()
        .filter(|(key, _)| key.ends_with("_token") && !is_standard(key));
    first
        .chain(others)
        .chain(further.into_iter().flatten())
        // add_bos_token and the like are booleans and no tokens.
        .filter(|(_, value)| token_text(value).is_some())
        .map(|(key, value)| (key.strip_suffix("_token").unwrap_or(key), value))
}

/// Special tokens without a role.
pub fn without_role(settings: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    ["additional_special_tokens", "extra_special_tokens"]
        .into_iter()
        .filter_map(|key| settings.get(key).and_then(Value::as_array))
        .flatten()
}

/// added_tokens_decoder: {id: token}, by id.
fn listed(settings: &Map<String, Value>) -> Result<Option<Vec<AddedToken>>> {
    let list = settings.get("added_tokens_decoder");
    let Some(list) = list.filter(|list| !list.is_null()) else {
        return Ok(None);
    };
    let wrong = |what: &str| Error::format(format!("added_tokens_decoder {what}"));
    let list = list
        .as_object()
        .ok_or_else(|| wrong("is not an object of ids and tokens"))?;
    let mut tokens = Vec::with_capacity(list.len());
    for (key, value) in list {
        let id: u64 = key
            .parse()
            .map_err(|_| wrong(&format!("has the id {}, which is no number", quote(key))))?;
        let token = token(value, false)
            .filter(|_| value.is_object())
            .ok_or_else(|| wrong(&format!("has no token with a content at {id}")))?;
        tokens.push((id, token));
    }
    tokens.sort_by_key(|(id, _)| *id);
    Ok(Some(tokens.into_iter().map(|(_, token)| token).collect()))
}

/// Adds what the settings name. What their list says of a token that is there already replaces what tokenizer.json says;
/// a role only makes one of the list, or without a list any, a special one. A special one stays one.
pub fn add(tokenizer: &mut Tokenizer, settings: &Map<String, Value>) -> Result<()> {
    let vocabulary = tokenizer.get_added_vocabulary().get_added_tokens_decoder();
    let there: HashMap<&str, &AddedToken> = vocabulary
        .values()
        .map(|token| (&*token.content, token))
        .collect();
    let of_roles: HashSet<&str> = roles(settings).filter_map(|(_, v)| token_text(v)).collect();
    let mut tokens = listed(settings)?.unwrap_or_else(|| vocabulary.values().cloned().collect());
    for token in &mut tokens {
        let text = &*token.content;
        let was = there.get(text).is_some_and(|token| token.special);
        token.special |= was || of_roles.contains(text);
    }
    let in_list: HashSet<String> = tokens.iter().map(|token| token.content.clone()).collect();
    let mut places: HashMap<String, usize> = HashMap::new();
    let values = roles(settings).map(|(_, value)| value);
    for token in values
        .chain(without_role(settings))
        .filter_map(|value| token(value, true))
    {
        if there.contains_key(&*token.content) || in_list.contains(&token.content) {
            continue;
        }
        // Of those that are named twice, what is said last counts.
        match places.get(&token.content) {
            Some(place) => tokens[*place] = token,
            None => {
                places.insert(token.content.clone(), tokens.len());
                tokens.push(token);
            }
        }
    }
    tokens.retain(|token| there.get(&*token.content) != Some(&token));
    if tokens.is_empty() {
        return Ok(());
    }
    pipeline::add_tokens(tokenizer, tokens)
}

#[cfg(test)]
mod tests {
    use crate::load::from_texts;
    use crate::text::{EncodeOptions, Text};
    use serde_json::{json, Value};

    fn load(added: Value, config: Value) -> Text {
        let words = json!({"model": {"type": "WordLevel", "unk_token": "?",
            "vocab": {"?": 0, "a": 1, "</s>": 2, "<x>": 3, "<y>": 4, "<z>": 5}},
            "pre_tokenizer": {"type": "Whitespace"}, "added_tokens": added});
        Text::new(from_texts(&words.to_string(), Some(&config.to_string())).unwrap()).unwrap()
    }

    fn encode(text: &Text, of: &str) -> Vec<i32> {
        text.encode(of, EncodeOptions::default()).unwrap()
    }

    #[test]
    fn tokens_that_a_config_names_are_special() {
        let config = json!({"eos_token": {"content": "</s>", "lstrip": true}, "boi_token": "<y>",
            "add_bos_token": true, "additional_special_tokens": ["<x>"],
            "extra_special_tokens": {"image_token": "<z>"}});
        let text = load(json!([]), config);
        assert_eq!(encode(&text, "a </s>a"), [1, 2, 1]);
        assert_eq!(encode(&text, "a<x><y><z>"), [1, 3, 4, 5]);
        assert_eq!(text.decode(&[1, 2, 3, 4, 5], true).unwrap(), "a");
        assert_eq!(text.vocab_size(), 6);
        assert_eq!(text.roles().get("image"), Some((5, "<z>")));
        let literal = EncodeOptions {
            literal: true,
            ..EncodeOptions::default()
        };
        assert!(!text.encode("</s>", literal).unwrap().contains(&2));
    }

    /// What transformers 5.24 makes of these files.
    #[test]
    fn tokens_that_the_vocabulary_lacks_are_behind_it() {
        let config = json!({"added_tokens_decoder": {
                "100000": {"content": "<new>", "special": true},
                "9": {"content": "<word>", "special": false, "rstrip": true},
                "2": {"content": "</s>"}},
            "boi_token": "<boi>", "pad_token": "[PAD]", "bos_token": "<s>", "cls_token": "[PAD]",
            "unk_token": "<word>"});
        let text = load(json!([]), config);
        let all = "a</s><new><word> <s>[PAD]<boi>";
        assert_eq!(encode(&text, all), [1, 2, 7, 6, 8, 9, 10]);
        assert_eq!(text.vocab_size(), 11);
        assert_eq!(
            text.decode(&[1, 2, 6, 7, 8, 9, 10], true).unwrap(),
            "a </s>"
        );
        assert_eq!(text.roles().get("pad"), Some((9, "[PAD]")));
        assert_eq!(text.roles().get("unk"), Some((6, "<word>")));
    }

    #[test]
    fn the_list_of_a_config_replaces_what_is_there() {
        let own = |special: bool, rstrip: bool| {
            json!([{"id": 2, "content": "</s>", "special": special, "rstrip": rstrip, "lstrip": false,
                "single_word": false, "normalized": false}])
        };
        let config = json!({"added_tokens_decoder": {"2": {"content": "</s>", "rstrip": true}}});
        let text = load(own(false, false), config.clone());
        assert_eq!(
            text.encode_offsets("</s> a", EncodeOptions::default())
                .unwrap()
                .offsets[0],
            (0, 5)
        );
        let text = load(own(true, false), config);
        assert_eq!(text.decode(&[1, 2], true).unwrap(), "a");
        // A role only makes it a special one.
        let text = load(
            own(false, true),
            json!({"eos_token": {"content": "</s>", "lstrip": true}}),
        );
        let offsets = text.encode_offsets("a </s> a", EncodeOptions::default());
        assert_eq!(offsets.unwrap().offsets[1], (2, 7));
        assert_eq!(text.decode(&[1, 2], true).unwrap(), "a");
        // One that a list leaves out stays what it is, as in transformers 5.23.
        let text = load(
            own(false, false),
            json!({"eos_token": "</s>", "added_tokens_decoder": {"3": {"content": "<x>"}}}),
        );
        assert_eq!(text.decode(&[1, 2, 3], true).unwrap(), "a </s> <x>");
        assert_eq!(text.ends(), [2]);
    }

    #[test]
    fn of_a_token_that_is_named_twice_the_last_counts() {
        let config = json!({"eos_token": {"content": "</s>", "rstrip": true}, "pad_token": {"content": "<z>"},
            "unk_token": {"content": "<z>", "rstrip": true}, "additional_special_tokens": ["</s>"]});
        let text = load(json!([]), config);
        let found = text.encode_offsets("</s> a<z> a", EncodeOptions::default());
        let ends: Vec<usize> = found.unwrap().offsets.iter().map(|(_, end)| *end).collect();
        assert_eq!(ends, [4, 6, 9, 11], "unk is before pad");
    }

    #[test]
    fn a_bad_list_is_refused() {
        for (list, why) in [
            (
                json!([]),
                "added_tokens_decoder is not an object of ids and tokens",
            ),
            (
                json!({"x": {"content": "y"}}),
                "added_tokens_decoder has the id \"x\", which is no number",
            ),
            (
                json!({"7": "y"}),
                "added_tokens_decoder has no token with a content at 7",
            ),
            (
                json!({"7": {"special": true}}),
                "added_tokens_decoder has no token with a content at 7",
            ),
        ] {
            let words = r#"{"model": {"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0}}}"#;
            let config = json!({"added_tokens_decoder": list}).to_string();
            let error = from_texts(words, Some(&config)).err().unwrap();
            assert_eq!(error.message, format!("tokenizer_config.json: {why}"));
        }
    }
}
