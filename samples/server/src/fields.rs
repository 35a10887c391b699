//! The fields of a JSON object as they came, and what is read from them.
//!
//! Errors name the field, which those of `serde_json` do not. One that is null is as if it were not there, as the schemas
//! of the APIs have it.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{
    self, Deserialize, DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer,
    MapAccess, Visitor,
};
use serde_json::value::RawValue;
use serde_json::{json, Value};

use crate::failure::{Failure, Kind, Result};

/// In their order.
#[derive(Debug)]
pub struct Fields<V = Box<RawValue>>(pub Vec<(String, V)>);

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Fields<V> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        struct Reader<V>(PhantomData<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for Reader<V> {
            type Value = Fields<V>;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object of fields")
            }
            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<Fields<V>, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        from.deserialize_map(Reader(PhantomData))
    }
}

impl Fields {
    /// A struct that has some of them.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T> {
        let reader = Reader {
            left: self.0.iter(),
            next: None,
        };
        T::deserialize(MapAccessDeserializer::new(reader)).map_err(|wrong| Failure {
            field: wrong.field,
            ..Failure::new(Kind::Body, wrong.why)
        })
    }

    fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = Value> + 'a {
        let named = self.0.iter().filter(move |(field, _)| field == name);
        // What is too deep to be read is no value that asks for nothing.
        named.map(|(_, value)| serde_json::from_str(value.get()).unwrap_or(json!("deep")))
    }

    /// Refuses fields that would change the answer, unless their values ask for nothing.
    pub fn refuse(&self, names: &[&'static str]) -> Result<()> {
        let nothing = [
            json!(null),
            json!(false),
            json!(0),
            json!({}),
            json!([]),
            json!(""),
        ];
        match names
            .iter()
            .find(|name| self.values(name).any(|value| !nothing.contains(&value)))
        {
            Some(name) => Err(Failure::field(*name, "is not served")),
            None => Ok(()),
        }
    }

    /// The same of fields that are on unless the caller says otherwise.
    pub fn refuse_off(&self, names: &[&'static str]) -> Result<()> {
        match names
            .iter()
            .find(|name| self.values(name).any(|value| value == json!(false)))
        {
            Some(name) => Err(Failure::field(*name, "is false; that is not served")),
            None => Ok(()),
        }
    }
}

struct Reader<'a> {
    left: std::slice::Iter<'a, (String, Box<RawValue>)>,
    next: Option<&'a (String, Box<RawValue>)>,
}

impl<'a> MapAccess<'a> for Reader<'a> {
    type Error = Wrong;

    fn next_key_seed<K: DeserializeSeed<'a>>(
        &mut self,
        seed: K,
    ) -> std::result::Result<Option<K::Value>, Wrong> {
        self.next = self.left.find(|(_, value)| value.get() != "null");
        let name = self.next.map(|(name, _)| name.as_str());
        name.map(|name| seed.deserialize(name.into_deserializer()))
            .transpose()
    }

    fn next_value_seed<T: DeserializeSeed<'a>>(
        &mut self,
        seed: T,
    ) -> std::result::Result<T::Value, Wrong> {
        let Some((name, value)) = self.next else {
            return Err(de::Error::custom("a value without a name"));
        };
        seed.deserialize(&**value).map_err(|why| {
            let text = why.to_string();
            // Counted from where the value begins, which tells a caller nothing.
            let place = format!(" at line {} column {}", why.line(), why.column());
            Wrong {
                field: Some(name.clone().into()),
                why: said(text.strip_suffix(&place).unwrap_or(&text)),
            }
        })
    }
}

/// What is wrong, where `serde_json` has no words that a caller would know.
fn said(why: &str) -> String {
    match why {
        "unexpected end of hex escape" | "lone leading surrogate in hex escape" => {
            "has half of a surrogate pair".into()
        }
        "number out of range" => "has a number that is too large; the largest is 1.8e308".into(),
        _ => with_limits(why),
    }
}

/// What `serde` expects it says by the name of a type of Rust.
fn with_limits(why: &str) -> String {
    let Some((said, kind)) = why.rsplit_once(", expected ") else {
        return why.into();
    };
    let (least, most) = match kind {
        "u8" => (0, u64::from(u8::MAX)),
        "u32" => (0, u64::from(u32::MAX)),
        "u64" | "usize" => (0, u64::MAX),
        "i32" => (i64::from(i32::MIN), i32::MAX as u64),
        "i64" => (i64::MIN, i64::MAX as u64),
        "f64" => return format!("{said}, expected a number"),
        _ => return why.into(),
    };
    format!("{said}, expected a whole number from {least} to {most}")
}

/// What is wrong, and with which field.
#[derive(Debug)]
struct Wrong {
    field: Option<Cow<'static, str>>,
    why: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for Wrong {}

impl de::Error for Wrong {
    fn custom<T: fmt::Display>(why: T) -> Wrong {
        Wrong {
            field: None,
            why: why.to_string(),
        }
    }

    fn missing_field(name: &'static str) -> Wrong {
        Wrong {
            field: Some(name.into()),
            why: "is missing".into(),
        }
    }

    fn duplicate_field(name: &'static str) -> Wrong {
        Wrong {
            field: Some(name.into()),
            why: "is there twice".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    struct Asked {
        #[serde(rename = "type")]
        kind: String,
        count: Option<u8>,
        #[serde(default)]
        list: Vec<u8>,
    }

    fn read(text: &str) -> Result<Asked> {
        serde_json::from_str::<Fields>(text).unwrap().read()
    }

    #[test]
    fn null_is_as_if_it_were_not_there() {
        let asked = read(r#"{"list": null, "other": {}, "count": null, "type": "a"}"#).unwrap();
        assert_eq!((asked.kind.as_str(), asked.count), ("a", None));
        assert!(asked.list.is_empty());
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, field, why) in [
            (
                r#"{"type": 1}"#,
                "type",
                "invalid type: integer `1`, expected a string",
            ),
            (r#"{"type": null}"#, "type", "is missing"),
            (r#"{"type": "a", "type": "b"}"#, "type", "is there twice"),
            (
                r#"{"type": "a", "count": 256}"#,
                "count",
                "invalid value: integer `256`, expected a whole number from 0 to 255",
            ),
            (
                r#"{"type": "a", "list": [1, "b"]}"#,
                "list",
                "invalid type: string \"b\", expected a whole number from 0 to 255",
            ),
            (
                r#"{"type": "\ud800"}"#,
                "type",
                "has half of a surrogate pair",
            ),
            (
                r#"{"type": "a", "count": 1e999}"#,
                "count",
                "has a number that is too large; the largest is 1.8e308",
            ),
        ] {
            let wrong = read(text).unwrap_err();
            assert_eq!(
                (wrong.field.as_deref(), &*wrong.message),
                (Some(field), why)
            );
        }
    }

    #[test]
    fn what_asks_for_nothing_is_not_refused() {
        let fields = |text| serde_json::from_str::<Fields>(text).unwrap();
        let asked = fields(r#"{"a": 0, "b": [], "c": true, "d": false}"#);
        assert!(asked.refuse(&["a", "b", "d", "e"]).is_ok());
        assert!(asked.refuse_off(&["a", "b", "c", "e"]).is_ok());
        let wrong = asked.refuse(&["a", "c"]).unwrap_err();
        assert_eq!(wrong.field.as_deref(), Some("c"));
        let wrong = asked.refuse_off(&["c", "d"]).unwrap_err();
        assert_eq!(wrong.field.as_deref(), Some("d"));
        let deep = format!("{{\"a\": {}{}}}", "[".repeat(500), "]".repeat(500));
        assert!(fields(&deep).refuse(&["a"]).is_err());
    }
}
