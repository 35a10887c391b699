//! Enough JSON to read the golden file.

use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq)]
pub enum Json {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Json>),
    Map(BTreeMap<String, Json>),
}

impl Json {
    pub fn parse(text: &str) -> Json {
        let mut rest = text;
        let value = value(&mut rest);
        assert_eq!(rest.trim(), "", "after the JSON");
        value
    }

    /// Null when there is no such key.
    pub fn get(&self, key: &str) -> &Json {
        match self {
            Json::Map(map) => map.get(key).unwrap_or(&Json::Null),
            other => panic!("{other:?} is no object with {key}"),
        }
    }

    pub fn number(&self) -> f64 {
        match self {
            Json::Number(number) => *number,
            other => panic!("{other:?} is no number"),
        }
    }

    pub fn text(&self) -> &str {
        match self {
            Json::Text(text) => text,
            other => panic!("{other:?} is no text"),
        }
    }

    /// Null is an empty list.
    pub fn list(&self) -> &[Json] {
        match self {
            Json::List(list) => list,
            Json::Null => &[],
            other => panic!("{other:?} is no list"),
        }
    }

    pub fn map(&self) -> &BTreeMap<String, Json> {
        match self {
            Json::Map(map) => map,
            other => panic!("{other:?} is no object"),
        }
    }

    pub fn tokens(&self) -> Vec<i32> {
        self.list()
            .iter()
            .map(|item| item.number() as i32)
            .collect()
    }

    pub fn bits(&self) -> Vec<u32> {
        self.list()
            .iter()
            .map(|item| item.number() as u32)
            .collect()
    }
}

fn take(rest: &mut &str, start: &str) -> bool {
    *rest = rest.trim_start();
    rest.strip_prefix(start)
        .map(|after| *rest = after)
        .is_some()
}

fn expect(rest: &mut &str, start: &str) {
    assert!(take(rest, start), "{start:?} is missing before {rest:.40}");
}

/// The characters up to the first one that does not belong.
fn split<'a>(rest: &mut &'a str, belongs: impl Fn(char) -> bool) -> &'a str {
    let end = rest.find(|c| !belongs(c)).unwrap_or(rest.len());
    let (part, after) = rest.split_at(end);
    *rest = after;
    part
}

fn text(rest: &mut &str) -> String {
    expect(rest, "\"");
    let part = split(rest, |c| c != '"' && c != '\\');
    expect(rest, "\""); // no escapes in the golden file
    part.to_string()
}

fn value(rest: &mut &str) -> Json {
    if take(rest, "{") {
        let mut map = BTreeMap::new();
        while !take(rest, "}") {
            let key = text(rest);
            expect(rest, ":");
            map.insert(key, value(rest));
            let _ = take(rest, ",");
        }
        Json::Map(map)
    } else if take(rest, "[") {
        let mut list = Vec::new();
        while !take(rest, "]") {
            list.push(value(rest));
            let _ = take(rest, ",");
        }
        Json::List(list)
    } else if rest.starts_with('"') {
        Json::Text(text(rest))
    } else {
        match split(rest, |c| c.is_ascii_alphanumeric() || "+-.".contains(c)) {
            "null" => Json::Null,
            "true" => Json::Bool(true),
            "false" => Json::Bool(false),
            number => Json::Number(number.parse().unwrap_or_else(|_| panic!("{number:?}"))),
        }
    }
}
