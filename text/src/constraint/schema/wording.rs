//! What is said of a text or a number, through all intersections.

use serde_json::{json, Map, Value};
use std::rc::Rc;

/// What the schema says, in the parts that were put together.
pub enum Said {
    Words(Value),
    Both(Rc<Said>, Rc<Said>),
}

impl Default for Said {
    fn default() -> Said {
        Said::Words(Value::Bool(true))
    }
}

impl Said {
    /// Of an object these words; nothing where it has none of them.
    pub fn words(kind: &str, object: &Map<String, Value>, keys: &[&str]) -> Rc<Said> {
        let own = keys
            .iter()
            .filter_map(|key| Some((key.to_string(), object.get(*key)?.clone())));
        let mut words: Map<_, _> = own.collect();
        if words.is_empty() && kind != "integer" {
            return Rc::default();
        }
        words.insert("type".into(), kind.into());
        Rc::new(Said::Words(words.into()))
    }

    pub fn value(value: &Value) -> Rc<Said> {
        Rc::new(Said::Words(json!({"const": value})))
    }

    pub fn both(a: &Rc<Said>, b: &Rc<Said>) -> Rc<Said> {
        match (&**a, &**b) {
            (Said::Words(Value::Bool(_)), _) => b.clone(),
            (_, Said::Words(Value::Bool(_))) => a.clone(),
            _ => Rc::new(Said::Both(a.clone(), b.clone())),
        }
    }

    /// The parts, in their order.
    pub fn parts(&self) -> Vec<&Value> {
        let (mut parts, mut waiting) = (Vec::new(), vec![self]);
        while let Some(said) = waiting.pop() {
            match said {
                Said::Words(words) => parts.push(words),
                Said::Both(a, b) => waiting.extend([&**b, &**a]),
            }
        }
        parts
    }
}
