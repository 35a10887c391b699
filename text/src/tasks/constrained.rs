//! What an answer must look like, as the engine asks for it.

use crate::constraint::{Compiled, Following};
use crate::engine::{Constrains, Constraint, Engine, Steps};
use crate::error::Result;
use std::sync::{Arc, Mutex, MutexGuard};

/// The rules of a task.
pub struct Constrained(Arc<Compiled>);

/// Why the text of an item ended in error: the engine knows a number.
#[derive(Clone, Default)]
pub struct Told(Arc<Mutex<String>>);

impl Told {
    fn lock(&self) -> MutexGuard<'_, String> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Empty when the rules did not end it.
    pub fn reason(&self) -> String {
        self.lock().clone()
    }
}

/// The rules of one item.
struct Grammar {
    compiled: Arc<Compiled>,
    told: Told,
}

struct Writing {
    following: Following,
    told: Told,
}

impl Constrained {
    pub fn new(compiled: Compiled) -> Constrained {
        Constrained(Arc::new(compiled))
    }

    /// For the request of an item, and where they will tell why they ended its text.
    pub fn of_item(&self, engine: &Engine) -> Result<(Constraint, Told)> {
        let grammar = self.grammar();
        let told = grammar.told.clone();
        Ok((engine.constraint(Arc::new(grammar))?, told))
    }

    fn grammar(&self) -> Grammar {
        Grammar {
            compiled: self.0.clone(),
            told: Told::default(),
        }
    }
}

impl Constrains for Grammar {
    fn begin(&self) -> Box<dyn Steps> {
        Box::new(Writing {
            following: self.compiled.begin(),
            told: self.told.clone(),
        })
    }
}

impl Writing {
    fn tell(&self, result: std::result::Result<(), String>) -> bool {
        match result {
            Ok(()) => true,
            Err(why) => {
                *self.told.lock() = why;
                false
            }
        }
    }
}

impl Steps for Writing {
    fn allow(&mut self, mask: &mut [u32]) -> bool {
        let allowed = self.following.allow(mask);
        self.tell(allowed)
    }

    fn accept(&mut self, token: i32) -> bool {
        let accepted = self.following.accept(token as u32);
        self.tell(accepted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constraint::{Rules, Vocabulary};

    #[test]
    fn an_item_has_the_reason_of_its_own_text() {
        let words = [&b"a"[..], b"b", b""].map(<[u8]>::to_vec);
        let vocabulary = || Ok(Arc::new(Vocabulary::new(words.to_vec(), &[2])?));
        let compiled = Compiled::new(&Rules::Regex("ab".into()), 3, vocabulary).unwrap();
        let constrained = Constrained::new(compiled);
        let items = [constrained.grammar(), constrained.grammar()];
        let mut texts = items.each_ref().map(Grammar::begin);
        assert!(texts[0].accept(0) && texts[1].accept(0));
        assert!(!texts[0].accept(0) && texts[1].accept(1));
        assert!(!items[0].told.reason().is_empty());
        assert_eq!(items[1].told.reason(), "");
    }
}
