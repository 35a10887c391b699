//! What kinds of characters a text has, as the methods of Python's texts tell them apart. Rust's own
//! tests know other kinds: to it the signs that stand for vowels are letters too, and superscripts and
//! fractions are the same.

use super::case::is_titlecase;
use super::strings::is_space;
use fancy_regex::Regex;
use std::sync::LazyLock;

type Pattern = LazyLock<Option<Regex>>;

static LETTERS: Pattern = LazyLock::new(|| Regex::new(r"\A\p{L}+\z").ok());
static LETTERS_AND_NUMBERS: Pattern = LazyLock::new(|| Regex::new(r"\A[\p{L}\p{N}]+\z").ok());
static DECIMALS: Pattern = LazyLock::new(|| Regex::new(r"\A\p{Nd}+\z").ok());
/// And those that stand above, below or inside of something (Numeric_Type of Unicode is Digit).
static DIGITS: Pattern = LazyLock::new(|| {
    Regex::new(
        r"\A[\p{Nd}²³¹\u{1369}-\u{1371}\u{19da}⁰⁴-⁹₀-₉①-⑨⑴-⑼⒈-⒐⓪⓵-⓽⓿❶-❾➀-➈➊-➒\u{10a40}-\u{10a43}\u{10e60}-\u{10e68}\u{11052}-\u{1105a}\u{1f100}-\u{1f10a}]+\z",
    )
    .ok()
});
/// And the ideographs that are numbers.
static NUMBERS: Pattern = LazyLock::new(|| {
    Regex::new(
        r"\A[\p{N}㐅㒃㠪㭍一七万三九二五亖亿什仟仨伍佰億兆兩八六十千卄卅卌叁参參叄四壱壹幺廾廿弌弍弎弐拾捌柒漆玖百肆萬貮貳贰阡陆陌陸零\u{f96b}\u{f973}\u{f978}\u{f9b2}\u{f9d1}\u{f9d3}\u{f9fd}\u{20001}\u{20064}\u{200e2}\u{20121}\u{2092a}\u{20983}\u{2098c}\u{2099c}\u{20aea}\u{20afd}\u{20b19}\u{22390}\u{22998}\u{23b1b}\u{2626d}\u{2f890}]+\z",
    )
    .ok()
});
/// What `\w+` finds.
static WORDS: Pattern = LazyLock::new(|| Regex::new(r"[\p{L}\p{N}_]+").ok());

fn is_all(pattern: &Pattern, text: &str) -> bool {
    let found = |pattern: &Regex| pattern.is_match(text).unwrap_or(false);
    (**pattern).as_ref().is_some_and(found)
}

/// Whether there are letters of this case, and none of another.
fn has_case(text: &str, wanted: fn(char) -> bool, other: fn(char) -> bool) -> bool {
    text.chars().any(wanted) && !text.chars().any(|c| other(c) || is_titlecase(c))
}

/// What `text.name()` says; None for other methods.
pub fn is_of(text: &str, name: &str) -> Option<bool> {
    Some(match name {
        "isalpha" => is_all(&LETTERS, text),
        "isalnum" => is_all(&LETTERS_AND_NUMBERS, text),
        "isdecimal" => is_all(&DECIMALS, text),
        "isdigit" => is_all(&DIGITS, text),
        "isnumeric" => is_all(&NUMBERS, text),
        "isspace" => !text.is_empty() && text.chars().all(is_space),
        "islower" => has_case(text, char::is_lowercase, char::is_uppercase),
        "isupper" => has_case(text, char::is_uppercase, char::is_lowercase),
        _ => return None,
    })
}

/// Jinja's `wordcount`.
pub fn words(text: &str) -> usize {
    let count = |pattern: &Regex| pattern.find_iter(text).count();
    (*WORDS).as_ref().map_or(0, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Python 3.11 says.
    #[test]
    fn kinds_are_those_of_python() {
        let names = [
            "isalpha",
            "isalnum",
            "isdecimal",
            "isdigit",
            "isnumeric",
            "isspace",
            "islower",
            "isupper",
        ];
        for (text, wanted) in [
            ("", ""),
            ("aé漢", "isalpha isalnum islower"),
            ("ÀB", "isalpha isalnum isupper"),
            ("नमस्ते", ""),
            ("Ⅷ", "isalnum isnumeric isupper"),
            ("ⅷ", "isalnum isnumeric islower"),
            ("Ⓐ", "isupper"),
            ("ª", "isalpha isalnum islower"),
            ("a1", "isalnum islower"),
            ("1٣", "isalnum isdecimal isdigit isnumeric"),
            ("x²", "isalnum islower"),
            ("²①", "isalnum isdigit isnumeric"),
            ("½", "isalnum isnumeric"),
            ("三零", "isalpha isalnum isnumeric"),
            ("ǅ", "isalpha isalnum"),
            ("aǅ", "isalpha isalnum"),
            (" \u{1c}\u{a0}", "isspace"),
            ("1.5", ""),
            ("-1", ""),
        ] {
            let is_of = |name: &&str| super::is_of(text, name) == Some(true);
            let found: Vec<&str> = names.into_iter().filter(|name| is_of(name)).collect();
            assert_eq!(found.join(" "), wanted, "{text:?}");
        }
        assert_eq!(is_of("a", "isprintable"), None);
        assert_eq!(words("नमस्ते, it's a_b ½"), 6);
    }
}
