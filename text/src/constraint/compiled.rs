//! A schema, regular expression or grammar, ready for any number of texts.

use super::ends;
use super::following::Following;
use super::rules::Rules;
use super::vocabulary::Vocabulary;
use crate::error::{Code, Error, Result};
use crate::panics::{panic_text, quiet};
use llguidance::{Matcher, TokenParser};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Mutex};
use std::thread;

/// The crate goes as deep as schemas and grammars are nested, and as the chains of their references are long.
const STACK_BYTES: usize = 64 << 20;

pub struct Compiled {
    vocabulary: Arc<Vocabulary>,
    /// Tokens of the model; its vocabulary and that of the tokenizer may each be the larger one.
    size: usize,
    parsers: Mutex<Parsers>,
}

struct Parsers {
    /// Never used: what all others are copies of.
    first: TokenParser,
    /// Its copies share what they find out about the grammar.
    shared: TokenParser,
}

impl Compiled {
    /// `size`: tokens of the model. `vocabulary` is asked for on a thread with room for it, since the tree is made by
    /// going down its branches.
    pub fn new(
        rules: &Rules,
        size: usize,
        vocabulary: impl FnOnce() -> Result<Arc<Vocabulary>> + Send,
    ) -> Result<Compiled> {
        on_own_thread(|| {
            let grammar = rules.checked()?;
            let vocabulary = vocabulary()?;
            vocabulary.check_ends(size)?;
            let made = vocabulary.factory.create_parser(grammar);
            let mut first = made.map_err(|e| Error::argument(rules.said(&e.to_string())))?;
            first.start_without_prompt();
            let shared = first.deep_clone();
            let compiled = Compiled {
                vocabulary,
                size,
                parsers: Mutex::new(Parsers { first, shared }),
            };
            compiled.check_begin()?;
            compiled.check_ends(rules)?;
            Ok(compiled)
        })
        .map_err(|e| e.within(&format!("option {}", rules.option())))
    }

    /// An error when there is no token to begin with.
    fn check_begin(&self) -> Result<()> {
        let mut mask = vec![0; self.size.div_ceil(32)];
        self.begin().allow(&mut mask).map_err(Error::argument)?;
        match mask.iter().any(|word| *word != 0) {
            true => Ok(()),
            false => Err(Error::argument("no token of the model begins such a text")),
        }
    }

    /// An error when a part of it has no text that ends.
    fn check_ends(&self, rules: &Rules) -> Result<()> {
        let mut parsers = self.parsers.lock().unwrap_or_else(|e| e.into_inner());
        ends::check(&mut parsers.shared.parser, &self.vocabulary, rules)
    }

    /// A text begins.
    pub fn begin(&self) -> Following {
        let mut parsers = self.parsers.lock().unwrap_or_else(|e| e.into_inner());
        // One text that is too much for the automaton ends those that share it, not those that begin later. After a
        // panic the crate panics at every use of what it left half done.
        let shared = &parsers.shared.parser;
        let is_whole = catch_unwind(AssertUnwindSafe(|| shared.get_error().is_none()));
        if !is_whole.unwrap_or(false) {
            parsers.shared = parsers.first.deep_clone();
        }
        let parser = parsers.shared.clone();
        Following::new(Matcher::new(Ok(parser)), self.vocabulary.clone(), self.size)
    }
}

/// The fuzz target has such a thread, and for each one a sanitizer clears what it knows of the stack.
#[cfg(feature = "fuzzing")]
fn on_own_thread<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    quiet(body)
}

#[cfg(not(feature = "fuzzing"))]
fn on_own_thread<T: Send>(body: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("prefix-grammar".into())
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, || quiet(body))
            .map_err(|e| Error::new(Code::OutOfMemory, format!("no thread for a grammar: {e}")))?;
        thread.join().unwrap_or_else(|cause| {
            let text = format!("a bug in the library: {}", panic_text(&*cause));
            std::mem::forget(cause); // dropping it may panic in theory
            Err(Error::new(Code::Internal, text))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::trying::{bytes, compiled};
    use super::*;
    use llguidance::toktrie::TokenId;

    fn refused(rules: Rules) -> Error {
        let Err(error) = compiled(&rules) else {
            panic!("option {} is taken", rules.option());
        };
        error
    }

    fn mask(following: &mut Following) -> std::result::Result<Vec<TokenId>, String> {
        let mut mask = [0; 9];
        following.allow(&mut mask)?;
        Ok((0..258)
            .filter(|id| mask[*id as usize / 32] >> (id % 32) & 1 == 1)
            .collect())
    }

    fn schema(text: impl Into<String>) -> Rules {
        Rules::Schema(text.into())
    }

    fn regex(text: impl Into<String>) -> Rules {
        Rules::Regex(text.into())
    }

    fn grammar(text: impl Into<String>) -> Rules {
        Rules::Grammar(text.into())
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (rules, message) in [
            (schema("{"), "option json_schema: EOF while parsing an object at line 1 column 1"),
            (schema("3"), "option json_schema: schema must be an object or boolean"),
            (schema("false"), "option json_schema: Unsatisfiable schema: schema is false"),
            (schema(r#"{"type": "text"}"#), "option json_schema: Invalid type: text"),
            (schema(r#"{"not": {}}"#), "option json_schema: it has \"not\", which structured output does not keep to"),
            (
                schema(r##"{"$ref": "#/$defs/A"}"##),
                "option json_schema: $ref \"#/$defs/A\" names nothing in the schema",
            ),
            (
                schema(r#"{"$ref": "https://json-schema.org/draft/2020-12/schema"}"#),
                "option json_schema: $ref begins with \"#/\" and names a place in the schema; there is \
                 \"https://json-schema.org/draft/2020-12/schema\"",
            ),
            (
                schema(r##"{"$ref": "#"}"##),
                "option json_schema: no value of it has an end: each is a part of another one",
            ),
            (
                schema(r#"{"type": "string", "pattern": "a("}"#),
                "option json_schema: unclosed group, at character 1",
            ),
            (
                schema(r##"{"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#/$defs/A"}},
                    "$defs": {"A": {"type": "string", "allOf": [{"pattern": "^a$"}, {"pattern": "^b$"}]}}}"##),
                "option json_schema: Unsatisfiable schema: required property 'a' is unsatisfiable",
            ),
            (
                schema(format!(
                    r#"{{"items": {{"allOf": [{}]}}}}"#,
                    (12..22).map(|n| format!(r#"{{"type": "string", "pattern": "(a|b)*a(a|b){{{n}}}"}}"#)).collect::<Vec<_>>().join(",")
                )),
                "option json_schema: pattern \"(a|b)*a(a|b){12}\" at #/items/allOf/0, with 9 more of the same value: \
                 whether a text is left takes more than 10000 steps to find out, the limit",
            ),
            (
                schema(r##"{"anyOf": [{"type": "null"}, {"$ref": "#/$defs/A"}], "$defs": {"A": {"type": "string",
                    "minLength": 1, "pattern": "(a|b)*a(a|b){16}(a|b)*b(a|b){16}(a|b)*$", "maxLength": 30}}}"##),
                "option json_schema: pattern \"(a|b)*a(a|b){16}(a|b)*b(a|b){16}(a|b)*$\" at #/$defs/A, with minLength 1, \
                 maxLength 30: whether a text is left takes more than 10000 steps to find out, the limit",
            ),
            // What the crate would begin and not end.
            (
                schema(r#"{"properties": {"x": {"type": "integer", "minimum": 1, "maximum": 3, "multipleOf": 0.7}}}"#),
                "option json_schema: multipleOf 0.7 at #/properties/x, with minimum 1, maximum 3, type \"integer\": no value \
                 is left that can be written",
            ),
            (
                schema(r#"{"properties": {"a/b": {"type": "string", "pattern": "^[\\x01-\\x02]$"}}}"#),
                "option json_schema: pattern \"^[\\x01-\\x02]$\" at #/properties/a~1b: no value is left that can be written",
            ),
            (
                schema(r#"{"type": "object", "patternProperties": {"": false}, "minProperties": 1}"#),
                "option json_schema: a part of it has no value that can be written",
            ),
            (grammar("start: \"y\" | a\na: \"x\" a\n"), "option grammar: no text of \"a\" has an end"),
            (grammar("start: \"a\" <[257]>\n"), "option grammar: no text of it has an end"),
            (
                grammar("start: \"a\" | \"b\" B\nB: /a/ & /b/\n"),
                "option grammar: a part of it has no text that can be written",
            ),
            (regex(""), "option regex: it is empty"),
            (regex("ab("), "option regex: unclosed group, at character 2"),
            (regex("a\\"), "option regex: incomplete escape sequence, reached end of pattern prematurely, at character 1"),
            (regex("a(?=b)"), "option regex: look-around, including look-ahead and look-behind, is not supported, at character 1"),
            (regex("[^\\x00-\\x{10ffff}]"), "option regex: no text follows it"),
            (grammar(""), "option grammar: no start rule found"),
            (grammar("start: a\n"), "option grammar: line 1, column 8: unknown name: \"a\""),
            (
                grammar("a: %json {\n}\nb: \"b\" %json {\"not\":\n{}}\nstart: a b\n"),
                "option grammar: line 3: it has \"not\", which structured output does not keep to",
            ),
            (grammar("start: <|im_end|>\n"), "option grammar: it names a special token; a text has none"),
            (grammar("start: <[257]>\n"), "option grammar: no token of the model begins such a text"),
        ] {
            let error = refused(rules);
            assert_eq!((error.code, &*error.message), (Code::InvalidArgument, message));
        }
    }

    /// Each would take the memory of the machine, or its stack, or hours.
    #[test]
    fn what_would_take_too_much_is_refused_before_it_does() {
        let many = |n: usize, one: &dyn Fn(usize) -> String| -> String {
            (0..n).map(one).collect::<Vec<_>>().join(",")
        };
        let properties = |n, one: &dyn Fn(usize) -> String| {
            let all = many(n, &|i| format!(r#""p{i}": {}"#, one(i)));
            format!(r#"{{"type": "object", "properties": {{{all}}}}}"#)
        };
        // Each names the next one twice, and is copied where something stands beside the reference.
        let next = |i: usize| format!(r##"{{"maxProperties": 9, "$ref": "#/d/{}"}}"##, i + 1);
        let twice = |i: usize| {
            format!(
                r#""{i}": {{"properties": {{"a": {0}, "b": {0}}}}}"#,
                next(i)
            )
        };
        let options = many(300, &|i| format!(r#"{{"properties": {{"p{i}": {{}}}}}}"#));
        let long = |i: usize| format!("a{i}: a{} \"x\"\n", i + 1);
        for (rules, what) in [
            (
                schema("x".repeat(10 << 20)),
                "10485760 bytes; the limit is 262144",
            ),
            (regex("x".repeat(20_000)), "20000 bytes; the limit is 16384"),
            (
                schema(format!(
                    "{}{{}}{}",
                    r#"{"items":"#.repeat(200),
                    "}".repeat(200)
                )),
                "recursion limit exceeded at line 1 column 1144",
            ),
            (
                schema(format!(
                    r##"{{"$ref": "#/d/0", "d": {{{}, "7000": {{}}}}}}"##,
                    many(7000, &|i| format!(
                        r##""{i}": {{"$ref": "#/d/{}"}}"##,
                        i + 1
                    ))
                )),
                "more than 4000 levels with those of its references, the limit",
            ),
            (
                schema(format!(
                    r##"{{"$ref": "#/d/0", "d": {{{}, "40": {{}}}}}}"##,
                    many(40, &twice)
                )),
                "more than 100000 units with the copies that intersections make, the limit",
            ),
            (
                schema(format!(
                    r#"{{"allOf": [{{"anyOf": [{options}]}}, {{"anyOf": [{options}]}}]}}"#
                )),
                "more than 100000 units with the copies that intersections make, the limit",
            ),
            // Each part is a part of itself.
            (
                schema(
                    r##"{"allOf": [{"$ref": "#/d/a"}, {"$ref": "#/d/b"}], "d": {
                    "a": {"properties": {"x": {"$ref": "#/d/a"}, "y": {"$ref": "#/d/a"}, "z": {"enum": [1, 2]}}},
                    "b": {"properties": {"x": {"$ref": "#/d/b"}, "y": {"$ref": "#/d/b"}, "z": {"enum": [2, 3]}}}}}"##,
                ),
                "Schema intersection stack level exceeded",
            ),
            // What a reference names is copied, also where nothing of it is left.
            (
                schema(format!(
                    r##"{{"anyOf": [{}], "d": {{"type": "array", "prefixItems": [{}]}}}}"##,
                    many(200, &|_| {
                        r##"{"type": "string", "minLength": 1, "$ref": "#/d"}"##.into()
                    }),
                    many(1000, &|_| "{}".into())
                )),
                "more than 100000 units with the copies that intersections make, the limit",
            ),
            // It is as many objects as it has names that may be left out.
            (
                schema(properties(900, &|_| "{}".into()).replacen(
                    '{',
                    r#"{"additionalProperties": false, "minProperties": 1, "#,
                    1,
                )),
                "more than 100000 units with the copies that intersections make, the limit",
            ),
            (
                schema(
                    r#"{"type": "array", "items": {"multipleOf": 9999}, "allOf": [{"items": {"multipleOf": 9998}}]}"#,
                ),
                "multipleOf 9999 and 9998 together are 99970002; the limit is 100000 without its point",
            ),
            // The crate reads the pattern anew for each of the intersections.
            (
                schema(format!(
                    r##"{{"allOf": [{{"anyOf": [{0}]}}, {{"anyOf": [{0}]}}], "d": {{"patternProperties": {{"{1}": {{}}}}}}}}"##,
                    many(60, &|_| r##"{"$ref": "#/d"}"##.into()),
                    "a?".repeat(4000)
                )),
                "more than 100000 units with the copies that intersections make, the limit",
            ),
            (
                schema(r#"{"enum": ["a\\n", {"b": "a\u0001"}]}"#),
                "enum has the control character U+0001; texts have none but \\b, \\t, \\n, \\f and \\r",
            ),
            (
                schema(r#"{"pattern": "^a\\x7f$"}"#),
                "pattern has the control character U+007F; texts have none but \\b, \\t, \\n, \\f and \\r",
            ),
            (
                schema(r#"{"allOf": [{"exclusiveMinimum": 0}, {"type": "number", "maximum": 0.5}]}"#),
                "exclusiveMinimum is 0 and the other bound, in another part of allOf, less than 1 away; one schema can say both",
            ),
            (
                schema(properties(2001, &|_| "{}".into())),
                "2001 names of properties in one object; the limit is 2000",
            ),
            (
                schema(properties(1000, &|i| {
                    format!(r#"{{"pattern": "^(a|b)*{i}$", "minLength": 3}}"#)
                })),
                "more than 100000 units with the copies that intersections make, the limit",
            ),
            (
                schema(properties(9, &|_| {
                    format!("{{\"multipleOf\": {}}}", u32::MAX)
                })),
                "multipleOf 4294967295; the limit is 100000 without its point, and 8 places behind it",
            ),
            (
                schema(r#"{"type": "number", "multipleOf": 0.123456}"#),
                "multipleOf 0.123456; the limit is 100000 without its point, and 8 places behind it",
            ),
            // The options are looked at again for each part that takes none of them away.
            (
                schema(format!(
                    r#"{{"allOf": [{{"enum": [{}1]}}{}]}}"#,
                    "1,".repeat(19_999),
                    ", true".repeat(28_000)
                )),
                "more than 100000 units with the copies that intersections make, the limit",
            ),
            // Each has an automaton of its own.
            (
                schema(properties(10, &|i| {
                    format!(r#"{{"type": "number", "multipleOf": {}}}"#, 99_999 - i)
                })),
                "more than 100000 units with the copies that intersections make, the limit",
            ),
            (
                schema(format!(r#"{{"const": [{}1]}}"#, "1,".repeat(44_999))),
                "more than 100000 units with the copies that intersections make, the limit",
            ),
            // Numbers that would be written as others, and those at which the crate turns in a circle.
            (
                schema(r#"{"const": -9223372036854775807}"#),
                "const has -9223372036854775807; the limit is 9007199254740992 on either side",
            ),
            (
                schema(r#"{"enum": [1, {"a": [1234567890123456789]}]}"#),
                "enum has 1234567890123456789; the limit is 9007199254740992 on either side",
            ),
            (
                schema(r#"{"type": "integer", "minimum": -1e20, "maximum": -1e19}"#),
                "maximum has -1e+19; the limit is 9007199254740992 on either side",
            ),
            (
                schema(r#"{"items": {"exclusiveMinimum": 9007199254740994}}"#),
                "exclusiveMinimum has 9007199254740994; the limit is 9007199254740992 on either side",
            ),
            (
                schema(r#"{"type": "object", "additionalProperties": {}, "minProperties": 2}"#),
                "minProperties is 2; the limit is one more than are required, 1",
            ),
            (
                schema(r#"{"x-guidance": {"whitespace_pattern": "x"}}"#),
                "x-guidance has whitespace_pattern; it takes whitespace_flexible and coerce_one_of",
            ),
            (
                schema(format!(
                    r#"{{"type": "object", "patternProperties": {{"{}": {{}}}}}}"#,
                    "a?".repeat(15_000)
                )),
                "more than 100000 units with the copies that intersections make, the limit",
            ),
            (
                regex("(".repeat(4000) + &")".repeat(4000)),
                "exceed the maximum number of nested parentheses/brackets (250), at character 250",
            ),
            (
                regex(
                    (0..1000)
                        .map(|i| format!(r"[\p{{L}}--\x{{{:x}}}]", 0x4e00 + i))
                        .collect::<String>(),
                ),
                "17000 bytes; the limit is 16384",
            ),
            (
                grammar(format!("start: {}\n", "(".repeat(100_000))),
                "129 brackets within brackets up to line 1; the limit is 128",
            ),
            // Of these none is closed, whatever stands behind.
            (
                grammar(format!("start: {}\n", "( // )\n \")\" /)/ ".repeat(10_000))),
                "129 brackets within brackets up to line 129; the limit is 128",
            ),
            (
                grammar((0..5000).map(long).collect::<String>()),
                "4097 rules up to line 4097; the limit is 4096",
            ),
            (
                grammar(
                    "start: ".to_string()
                        + &format!("%json {{\"enum\": [{}1]}} ", "1,".repeat(59)).repeat(1800)
                        + "\n",
                ),
                "units of schemas up to line 1; the limit is 100000",
            ),
        ] {
            let said = refused(rules).message;
            assert!(said.ends_with(what), "{said}");
        }
    }

    /// And what goes as deep as that has room.
    #[test]
    fn what_is_within_the_limits_has_room() {
        let rule = |i: usize| format!("a{i}: a{} \"x\"\n", i + 1);
        let terminal = |i: usize| format!("A{i}: A{} \"x\"\n", i + 1);
        let rules = |one: &dyn Fn(usize) -> String| (0..4000).map(one).collect::<String>();
        let references: Vec<String> = (0..3900)
            .map(|i| format!(r##""{i}": {{"$ref": "#/d/{}"}}"##, i + 1))
            .collect();
        let lists: Vec<String> = (0..1900)
            .map(|i| {
                format!(
                    r##""{i}": {{"properties": {{"a": {{"$ref": "#/d/{}"}}}}}}"##,
                    i + 1
                )
            })
            .collect();
        let properties_of = |n: usize, one: &str| {
            let all: Vec<String> = (0..n).map(|i| format!(r#""p{i}": {one}"#)).collect();
            format!(
                r#"{{"type": "object", "properties": {{{}}}}}"#,
                all.join(",")
            )
        };
        let properties: Vec<String> = (0..900).map(|i| format!(r#""p{i}": {{}}"#)).collect();
        for rules in [
            schema(format!(
                "{}{{}}{}",
                r#"{"items":"#.repeat(120),
                "}".repeat(120)
            )),
            schema(format!(
                r#"{{"type": "object", "properties": {{{}}}}}"#,
                properties.join(",")
            )),
            schema(
                r#"{"type": "array", "minItems": 4294967295, "maxItems": 18446744073709551615}"#,
            ),
            schema(r#"{"type": "string", "minLength": 4294967295}"#),
            schema(r#"{"type": "object", "required": ["a"], "minProperties": 2}"#),
            schema(
                r#"{"type": "integer", "minimum": -9223372036854775808, "maximum": 9223372036854775807}"#,
            ),
            schema(r#"{"enum": [9007199254740992, -9007199254740992]}"#),
            schema(
                r#"{"type": "number", "multipleOf": 99999, "minimum": -0.5, "exclusiveMaximum": 9e15}"#,
            ),
            schema(properties_of(
                900,
                r#"{"type": "number", "multipleOf": 99999}"#,
            )),
            schema(r#"{"type": "number", "multipleOf": 1e-8, "exclusiveMinimum": -9e15}"#),
            regex("((a{1000}){1000}){1000}"),
            regex("(a|b)*a(a|b){200}"),
            regex("(a?){1000}a{1000}"),
            grammar(format!("start: a0\n{}a4000: \"y\"\n", rules(&rule))),
            grammar(format!("start: A0\n{}A4000: \"y\"\n", rules(&terminal))),
            grammar(format!(
                "start: {}\"a\"{}\n",
                "(".repeat(28),
                ")".repeat(28)
            )),
            grammar("start: ((\"a\"~1..1000)~1..1000)~1..1000\n"),
            schema(format!(
                r##"{{"$ref": "#/d/0", "d": {{{}, "3900": {{}}}}}}"##,
                references.join(",")
            )),
            schema(format!(
                r##"{{"$ref": "#/d/0", "d": {{{}, "1900": {{}}}}}}"##,
                lists.join(",")
            )),
        ] {
            compiled(&rules).map(|_| ()).unwrap();
        }
    }

    #[test]
    fn a_text_that_is_too_much_ends_no_other() {
        let mut double = String::from("start: A0\n");
        for i in 0..60 {
            double += &format!("A{i}: A{0} A{0} | A{0}\n", i + 1);
        }
        let compiled = compiled(&grammar(double + "A60: \"y\"\n")).unwrap();
        for _ in 0..2 {
            let mut following = compiled.begin();
            let error = loop {
                let step = mask(&mut following).and_then(|_| following.accept(u32::from(b'y')));
                if let Err(error) = step {
                    break error;
                }
            };
            assert_eq!(error, "lexer error: too many expressions constructed");
        }
        let _ = mask(&mut compiled.begin()).unwrap();
    }

    #[test]
    fn a_model_that_cannot_end_a_text_has_none_by_rules() {
        let rules = regex("a");
        let Err(error) = Compiled::new(&rules, 256, || Ok(bytes())) else {
            panic!("the end is the token behind those of the model");
        };
        assert_eq!(error.code, Code::UnsupportedModel);
        assert_eq!(
            error.message,
            "option regex: the tokenizer names no token of the model that ends a text"
        );
    }
}
