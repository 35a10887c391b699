//! Numbers as Python writes them.

/// `repr` of a float: the shortest digits that give the number back; an exponent below 1e-4
/// and from 1e16 on; always a point or an exponent.
pub fn python_float(number: f64) -> String {
    if !number.is_finite() {
        return number.to_string().to_lowercase();
    }
    if number == 0.0 {
        return if number.is_sign_negative() {
            "-0.0".to_string()
        } else {
            "0.0".to_string()
        };
    }
    // Rust's {:e} gives the same shortest digits as Python: d.ddde-x.
    let text = format!("{number:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let plain = format!("{number}");
        return if plain.contains('.') {
            plain
        } else {
            format!("{plain}.0")
        };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::python_float;

    #[test]
    fn floats_look_like_python() {
        for (number, text) in [
            (1.0, "1.0"),
            (f64::NAN, "nan"),
            (f64::NEG_INFINITY, "-inf"),
            (-0.0, "-0.0"),
            (0.1, "0.1"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.25e20, "1.25e+20"),
            (1e100, "1e+100"),
            (5e-324, "5e-324"),
            (123456.789, "123456.789"),
        ] {
            assert_eq!(python_float(number), text);
        }
    }
}
