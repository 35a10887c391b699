//! What the crate says is wrong, as a sentence: it shows the place in a copy of the text, and its own stack.

use super::schema::UNDECIDED;

/// Longest sentence: it may repeat a part of the text.
const MOST: usize = 240;
/// What the crate says where an intersection would have no end.
const CIRCLE: &str = "circular references with sibling keys are not supported";

pub fn said(error: &str) -> String {
    let first = error.lines().next().unwrap_or_default();
    if first.contains("missing special token prefix") {
        return "it names a special token; a text has none".to_string();
    }
    if first == "NoExtensionBias" {
        return "no text follows it".to_string();
    }
    if first.contains(UNDECIDED) {
        return "pattern: whether a text is left takes more than 10000 steps to find out, the limit".to_string();
    }
    // An assertion of the crate is a limit that it does not name.
    if let Some(why) = first.strip_prefix("panic: ") {
        return format!("it is too much for the crate llguidance ({why})");
    }
    let shown = match of_regex(error) {
        Some(shown) => shown,
        None => match of_grammar(first) {
            Some((line, column, rest)) => format!("line {line}, column {column}: {rest}"),
            None => first.replace(
                CIRCLE,
                "what stands beside $ref, or with it in allOf, cannot be put into a schema that it is a part of",
            ),
        },
    };
    match shown.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &shown[..end]),
        None => shown,
    }
}

/// Of a regular expression the crate shows the text, marks under it, and in the last line what is wrong.
fn of_regex(error: &str) -> Option<String> {
    let (before, shown) = error.split_once("regex parse error:\n")?;
    let wrong = shown
        .lines()
        .find_map(|line| line.strip_prefix("error: "))?;
    let marks = shown
        .lines()
        .find(|line| line.contains('^') && line.trim_matches([' ', '^']).is_empty());
    // The text is moved to the right by four.
    let at = marks.and_then(|line| line.find('^')).filter(|at| *at >= 4);
    Some(match at {
        Some(at) => format!("{before}{wrong}, at character {}", at - 4),
        None => format!("{before}{wrong}"),
    })
}

/// "1(8): what" or "at 1(8): what".
fn of_grammar(first: &str) -> Option<(usize, usize, &str)> {
    let place = first.strip_prefix("at ").unwrap_or(first);
    let (line, rest) = place.split_once('(')?;
    let (column, rest) = rest.split_once("): ")?;
    Some((line.parse().ok()?, column.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_sentence_with_the_place() {
        for (error, sentence) in [
            (
                "regex parse error:\n    ab(\n      ^\nerror: unclosed group",
                "unclosed group, at character 2",
            ),
            (
                "regex parse error:\n~~~~\n1: a\n2: (\n   ^\n~~~~\nerror: unclosed group",
                "unclosed group",
            ),
            (
                "at 3(8): unknown name: \"a\"\n   | start: a",
                "line 3, column 8: unknown name: \"a\"",
            ),
            ("12(1): lexer error\nx", "line 12, column 1: lexer error"),
            ("f(x): y", "f(x): y"),
            (
                "panic: missing special token prefix\n<backtrace>",
                "it names a special token; a text has none",
            ),
            (
                "Unable to determine if regex is empty:  (And (SearchRegex /a/))\n  while processing #/$defs/A",
                "pattern: whether a text is left takes more than 10000 steps to find out, the limit",
            ),
            ("NoExtensionBias\n<non-verbose/>", "no text follows it"),
            (
                "panic: x > y\n<backtrace>",
                "it is too much for the crate llguidance (x > y)",
            ),
            ("", ""),
        ] {
            assert_eq!(said(error), sentence);
        }
        assert_eq!(said(&"é".repeat(1000)), "é".repeat(MOST) + "...");
    }
}
