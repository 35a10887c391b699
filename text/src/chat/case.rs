//! Small and capital letters as Python makes them.

/// The small letters of each character. A sigma knows what stands around it: "ΣΑΣ" is "σας".
fn lowered(text: &str) -> impl Iterator<Item = (char, String)> + '_ {
    let mut whole = text.to_lowercase().chars().collect::<Vec<_>>().into_iter();
    text.chars().map(move |c| {
        let count = c.to_lowercase().count();
        (c, whole.by_ref().take(count).collect())
    })
}

/// Letters that are two in one have a third case.
pub fn is_titlecase(c: char) -> bool {
    matches!(
        c,
        'ǅ' | 'ǈ' | 'ǋ' | 'ǲ' | '\u{1fbc}' | '\u{1fcc}' | '\u{1ffc}' |
        '\u{1f88}'..='\u{1f8f}' | '\u{1f98}'..='\u{1f9f}' | '\u{1fa8}'..='\u{1faf}'
    )
}

fn to_title(c: char) -> String {
    let one = |c: u32| char::from_u32(c).into_iter().collect();
    match c {
        'Ǆ' | 'ǅ' | 'ǆ' => "ǅ".to_string(),
        'Ǉ' | 'ǈ' | 'ǉ' => "ǈ".to_string(),
        'Ǌ' | 'ǋ' | 'ǌ' => "ǋ".to_string(),
        'Ǳ' | 'ǲ' | 'ǳ' => "ǲ".to_string(),
        // Greek with a iota below, and Georgian, whose capitals are for whole words only.
        '\u{1f80}'..='\u{1faf}' => one(c as u32 | 8),
        '\u{1fb3}' | '\u{1fc3}' | '\u{1ff3}' => one(c as u32 + 9),
        '\u{10d0}'..='\u{10ff}' => c.to_string(),
        c if is_titlecase(c) => c.to_string(),
        'ŉ' => "ʼN".to_string(),
        c => {
            let mut upper = c.to_uppercase();
            let first = upper.next().into_iter();
            let rest = upper.map(|c| match c {
                '\u{399}' => "\u{345}".to_string(),
                c => c.to_lowercase().collect(),
            });
            first.map(|c| c.to_string()).chain(rest).collect()
        }
    }
}

fn is_cased(c: char) -> bool {
    c.is_uppercase() || c.is_lowercase() || is_titlecase(c)
}

/// `str.title`: every run of letters, also behind an apostrophe.
pub fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut inside = false;
    for (c, lower) in lowered(text) {
        out.push_str(&if inside { lower } else { to_title(c) });
        inside = is_cased(c);
    }
    out
}

pub fn capitalize(text: &str) -> String {
    let mut chars = lowered(text);
    let first = chars.next().map(|(c, _)| to_title(c));
    let rest = chars.map(|(_, lower)| lower);
    first.into_iter().chain(rest).collect()
}

pub fn swapcase(text: &str) -> String {
    let swapped = |(c, lower): (char, String)| match c {
        c if c.is_uppercase() => lower,
        c if c.is_lowercase() => c.to_uppercase().collect(),
        c => c.to_string(),
    };
    lowered(text).map(swapped).collect()
}

/// `str.casefold`: the small letters of the capitals of the small letters, but for letters that are
/// folded another way.
pub fn casefold(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            'ı' => out.push(c),
            // Cherokee, whose capitals are older.
            '\u{13a0}'..='\u{13f5}' => out.push(c),
            '\u{13f8}'..='\u{13fd}' | '\u{ab70}'..='\u{abbf}' => out.extend(c.to_uppercase()),
            c => out.extend(
                c.to_lowercase()
                    .flat_map(char::to_uppercase)
                    .flat_map(char::to_lowercase),
            ),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Python 3.11 gives.
    #[test]
    fn letters_are_those_of_python() {
        let sigmas = "ΑΣ ΑΣΑ ΣΑΣ. Σ";
        assert_eq!(title(sigmas), "Ας Ασα Σας. Σ");
        assert_eq!(capitalize(sigmas), "Ας ασα σας. σ");
        assert_eq!(swapcase(sigmas), "ας ασα σας. σ");
        assert_eq!(casefold("ΑΣ ς"), "ασ σ");
        assert_eq!(
            title("they're 1st ǆ ŉ ᾳ ᾴ აბ ﬁ"),
            "They'Re 1St ǅ ʼN ᾼ Ά\u{345} აბ Fi"
        );
        assert_eq!(capitalize("ßa"), "Ssa");
        assert_eq!(swapcase("aB ǆ ǅ ß İ"), "Ab Ǆ ǅ SS i\u{307}");
        assert_eq!(
            casefold("Straße ẞ ŉ ﬁ İ ı ꭰ Ꭰ µ"),
            "strasse ss ʼn fi i\u{307} ı Ꭰ Ꭰ μ"
        );
    }
}
