//! Schemas as people and their tools write them (tests/fixtures/schemas.jsonl): each is taken, with values that are of it
//! and no others.

use super::trying::{compiled, written, END, SIZE};
use super::validity::fault;
use super::{Compiled, Rules};
use crate::random::random;
use serde_json::{json, Value};

struct Case {
    name: String,
    schema: Value,
    good: Vec<Value>,
    bad: Vec<Value>,
}

fn cases() -> Vec<Case> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/schemas.jsonl");
    let lines = std::fs::read_to_string(path).unwrap();
    let case = |line: &str| {
        let mut case: Value = serde_json::from_str(line).unwrap();
        let values = |value: &Value| value.as_array().unwrap().clone();
        Case {
            name: case["name"].as_str().unwrap().to_string(),
            good: values(&case["good"]),
            bad: values(&case["bad"]),
            schema: case["schema"].take(),
        }
    };
    lines.lines().map(case).collect()
}

fn of(schema: &Value) -> Compiled {
    let rules = Rules::Schema(schema.to_string());
    compiled(&rules).unwrap_or_else(|error| panic!("{error}: {schema}"))
}

fn is_taken(compiled: &Compiled, text: &str) -> bool {
    may_come(compiled, text.bytes().map(u32::from).chain([END]))
}

/// Whether a text may begin so.
fn is_begun(compiled: &Compiled, text: &str) -> bool {
    may_come(compiled, text.bytes().map(u32::from))
}

fn may_come(compiled: &Compiled, mut tokens: impl Iterator<Item = u32>) -> bool {
    let mut following = compiled.begin();
    tokens.all(|token| {
        let mut mask = [0; SIZE.div_ceil(32)];
        following.allow(&mut mask).unwrap();
        let may = mask[token as usize / 32] >> (token % 32) & 1 == 1;
        may && (token == END || following.accept(token).is_ok())
    })
}

#[test]
fn schemas_that_people_write_take_their_values_and_no_others() {
    for case in cases() {
        let compiled = of(&case.schema);
        for (values, wanted) in [(&case.good, true), (&case.bad, false)] {
            for value in values {
                for text in [
                    value.to_string(),
                    serde_json::to_string_pretty(value).unwrap(),
                ] {
                    assert_eq!(is_taken(&compiled, &text), wanted, "{}: {text}", case.name);
                }
            }
        }
    }
}

#[test]
fn what_is_written_is_of_the_schema() {
    let mut finished = 0;
    for case in cases() {
        let compiled = of(&case.schema);
        for seed in 0..60 {
            let mut draw = random(seed);
            let mut step = 0;
            let text = written(&compiled, 600, |all| {
                step += 1;
                let place = |token: u32| all.iter().position(|one| *one == token);
                let end = [END, 34, 125, 93]
                    .into_iter()
                    .find_map(place)
                    .filter(|_| step > seed);
                end.unwrap_or_else(|| draw(all.len() as u64) as usize)
            });
            let Some(text) = text.unwrap() else {
                continue;
            };
            finished += 1;
            let text = String::from_utf8(text).unwrap();
            match serde_json::from_str(&text) {
                Ok(value) => assert_eq!(
                    fault(&case.schema, &value, &case.schema),
                    None,
                    "{}: {text}",
                    case.name
                ),
                // JSON has no limit for numbers; the reader has.
                Err(e) => assert!(e.to_string().contains("number out of range"), "{e}: {text}"),
            }
        }
    }
    assert!(finished > 1000, "{finished} texts");
}

/// What the crate alone takes, or begins and cannot end.
#[test]
fn what_a_schema_does_not_say_is_not_taken() {
    let named =
        json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]});
    let endless = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}]}}});
    let near = json!({"type": "number", "exclusiveMinimum": 0, "maximum": 0.5});
    let below = json!({"minimum": -0.5, "exclusiveMaximum": 0, "type": "number"});
    // Of the same name texts that begin with a and those that begin with b, through a reference and an intersection.
    let apart = json!({"type": "string", "allOf": [{"pattern": "^a"}, {"$ref": "#/$defs/B"}]});
    let optional = json!({"type": "object", "additionalProperties": false, "properties": {"a": {"$ref": "#/$defs/A"}, "c": {"type": "null"}},
        "$defs": {"A": apart, "B": {"pattern": "^b"}}});
    let option = json!({"items": {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]}, "type": "array",
        "$defs": {"A": apart, "B": {"pattern": "^b"}}});
    let list = json!({"type": "array", "items": {"$ref": "#/$defs/L"}, "$defs": {"A": apart, "B": {"pattern": "^b"},
        "L": {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/L"}}]}}});
    let covered = json!({"type": "object", "patternProperties": {"": {"type": "integer"}}, "properties": {"a": {}}});
    for (schema, good, bad) in [
        (
            &optional,
            &["{}", r#"{"c":null}"#][..],
            &[r#"{"a":"ab"}"#][..],
        ),
        (&option, &["[null,null]", "[]"][..], &[r#"["ab"]"#][..]),
        (&list, &["[]"][..], &["[[]]"][..]),
        // The name a, and the same one in other letters.
        (
            &named,
            &[r#"{"a":1}"#, r#"{"a":1,"b":"x\n"}"#][..],
            &[
                r#"{"a":1,"\u0061":"x"}"#,
                r#"{"a":1,"a":2}"#,
                r#"{"a":1,"b":"\u0062"}"#,
            ][..],
        ),
        // Names that no pattern leaves.
        (
            &covered,
            &["{}", r#"{"a":1,"b":2}"#][..],
            &[r#"{"a":"x"}"#][..],
        ),
        (&endless, &["{}"][..], &[r#"{"a":1}"#][..]),
        (
            &near,
            &["0.5", "0.1", "0.000001"][..],
            &["0", "-0", "0.0", "0.51"][..],
        ),
        (
            &below,
            &["-0.5", "-0.1"][..],
            &["0", "-0", "-0.0", "0.1", "-0.51"][..],
        ),
    ] {
        let compiled = of(schema);
        for (texts, wanted) in [(good, true), (bad, false)] {
            for text in texts {
                assert_eq!(is_taken(&compiled, text), wanted, "{text} of {schema}");
            }
        }
    }
    for (schema, begun, text) in [
        (&optional, true, r#"{"c":"#),
        (&optional, false, r#"{"a"#),
        (&option, true, "[n"),
        (&option, false, "[\""),
        (&list, false, "[["),
        (&endless, true, r#"{"b":"#),
        (&endless, false, r#"{"a":"#),
    ] {
        assert_eq!(is_begun(&of(schema), text), begun, "{text} of {schema}");
    }
}
