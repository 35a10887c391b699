//! Special tokens by role (bos, eos, ...) and the tokens that end a generation.

use crate::pipeline::Tokenizer;
use std::collections::{BTreeMap, BTreeSet};

/// Names of tokens that end a turn in the families we know. Files often list only one of them as
/// eos although the model writes another at the end of its turn.
const KNOWN_ENDS: &[&str] = &[
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<end_of_turn>",
    "<|return|>",
    "<|call|>",
    "<|END_OF_TURN_TOKEN|>",
];

/// Role -> token. Roles are open-ended: what a file names, a caller can ask for.
#[derive(Debug, Default, Clone)]
pub struct Roles {
    tokens: BTreeMap<String, (u32, String)>,
}

impl Roles {
    pub fn set(&mut self, role: &str, id: u32, token: &str) {
        self.tokens
            .insert(role.to_string(), (id, token.to_string()));
    }

    /// Accepts "eos" and "eos_token".
    pub fn get(&self, role: &str) -> Option<(u32, &str)> {
        let role = role.strip_suffix("_token").unwrap_or(role);
        self.tokens.get(role).map(|(id, token)| (*id, &**token))
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, u32, &str)> {
        self.tokens
            .iter()
            .map(|(role, (id, token))| (&**role, *id, &**token))
    }
}

/// All tokens after which a generation is over, ascending: eos, eot, eom, what the model's
/// generation settings list, and special tokens of well-known names.
pub fn end_tokens(tokenizer: &Tokenizer, roles: &Roles, listed: &[u32]) -> Vec<u32> {
    let mut ends: BTreeSet<u32> = listed.iter().copied().collect();
    for role in ["eos", "eot", "eom"] {
        ends.extend(roles.get(role).map(|(id, _)| id));
    }
    let added = tokenizer.get_added_tokens_decoder();
    ends.extend(
        added
            .iter()
            .filter(|(_, token)| token.special && KNOWN_ENDS.contains(&&*token.content))
            .map(|(id, _)| *id),
    );
    ends.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::from_texts;
    use crate::text::Text;
    use serde_json::json;

    fn ends(added: &[(&str, bool)], config: serde_json::Value) -> Vec<u32> {
        let added: Vec<_> = added
            .iter()
            .enumerate()
            .map(|(i, (content, special))| {
                json!({"id": 4 + i, "content": content, "special": special, "single_word": false,
                    "lstrip": false, "rstrip": false, "normalized": false})
            })
            .collect();
        let words = json!({"model": {"type": "WordLevel", "unk_token": "?",
            "vocab": {"?": 0, "x": 1, "y": 2, "z": 3}}, "added_tokens": added});
        let loaded = from_texts(&words.to_string(), Some(&config.to_string())).unwrap();
        Text::new(loaded)
            .unwrap()
            .ends()
            .iter()
            .map(|id| *id as u32)
            .collect()
    }

    #[test]
    fn eos_eot_and_eom_end_a_generation_and_no_other_role() {
        for (role, id) in [("eos_token", "x"), ("eot_token", "y"), ("eom_token", "z")] {
            let wanted = " xyz".find(id).unwrap() as u32;
            assert_eq!(ends(&[], json!({ role: id })), [wanted], "{role}");
        }
        assert!(ends(&[], json!({"pad_token": "x", "bos_token": "y"})).is_empty());
    }

    #[test]
    fn special_tokens_of_every_known_name_end_a_turn() {
        for name in KNOWN_ENDS {
            assert_eq!(
                ends(&[("<a>", true), (name, true)], json!({})),
                [5],
                "{name}"
            );
            assert!(ends(&[(name, false)], json!({})).is_empty(), "{name}");
        }
    }
}
