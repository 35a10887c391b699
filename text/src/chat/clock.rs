//! `strftime_now`: the date in a prompt, as Python's `datetime.now().strftime` writes it.

use crate::error::{quote, Error, Result};

/// A point in local time without a zone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DateTime {
    pub year: i32,
    pub month: u32, // 1-12
    pub day: u32,   // 1-31
    pub hour: u32,
    pub minute: u32,
    pub second: u32,
}

const DAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

fn leap(year: i32) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn month_days(year: i32, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if leap(year) => 29,
        2 => 28,
        _ => 31,
    }
}

impl DateTime {
    /// The clock of this machine in its time zone.
    pub fn now() -> Self {
        let seconds = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |d| d.as_secs() as libc::time_t);
        // SAFETY: both pointers are to valid locals; localtime_r writes only to the second.
        let parts = unsafe {
            let mut parts: libc::tm = std::mem::zeroed();
            libc::localtime_r(&seconds, &mut parts);
            parts
        };
        DateTime {
            year: parts.tm_year + 1900,
            month: parts.tm_mon as u32 + 1,
            day: parts.tm_mday.max(1) as u32,
            hour: parts.tm_hour as u32,
            minute: parts.tm_min as u32,
            second: parts.tm_sec as u32,
        }
    }

    /// "2026-01-31" or "2026-01-31T23:59:59".
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = || {
            Error::argument(format!(
                "now is {}; it is written like 2026-01-31 or 2026-01-31T23:59:59",
                quote(text)
            ))
        };
        let bytes = text.as_bytes();
        let shape = |at: usize, c: u8| bytes.get(at) == Some(&c);
        let long = bytes.len() == 19 && shape(10, b'T') && shape(13, b':') && shape(16, b':');
        if !(bytes.len() == 10 || long) || !shape(4, b'-') || !shape(7, b'-') {
            return Err(wrong());
        }
        let number = |from: usize, to: usize| -> Result<u32> {
            let digits = text.get(from..to).ok_or_else(wrong)?;
            if !digits.bytes().all(|b| b.is_ascii_digit()) {
                return Err(wrong());
            }
            digits.parse().map_err(|_| wrong())
        };
        let mut at = DateTime {
            year: number(0, 4)? as i32,
            month: number(5, 7)?,
            day: number(8, 10)?,
            hour: 0,
            minute: 0,
            second: 0,
        };
        if long {
            (at.hour, at.minute, at.second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
        }
        let right = at.year >= 1
            && (1..=12).contains(&at.month)
            && (1..=month_days(at.year, at.month)).contains(&at.day)
            && at.hour < 24
            && at.minute < 60
            && at.second < 60;
        if right {
            Ok(at)
        } else {
            Err(wrong())
        }
    }

    fn day_of_year(&self) -> u32 {
        (1..self.month)
            .map(|m| month_days(self.year, m))
            .sum::<u32>()
            + self.day
    }

    /// 0 is Sunday.
    fn weekday(&self) -> u32 {
        let before = self.year - 1;
        let days = before * 365 + before / 4 - before / 100 + before / 400;
        (days as u32 + self.day_of_year()) % 7
    }

    /// The directives of C89 that do not depend on a locale, and "-" for no padding.
    pub fn strftime(&self, format: &str) -> Result<String> {
        let mut out = String::new();
        let mut chars = format.chars().peekable();
        while let Some(c) = chars.next() {
            if c != '%' {
                out.push(c);
                continue;
            }
            let bare = chars.next_if_eq(&'-').is_some();
            let two = |n: u32| {
                if bare {
                    n.to_string()
                } else {
                    format!("{n:02}")
                }
            };
            let hour12 = (self.hour + 11) % 12 + 1;
            let day = DAYS[self.weekday() as usize];
            let month = MONTHS[self.month as usize - 1];
            let piece = match chars.next() {
                Some('Y') => self.year.to_string(),
                Some('y') => two(self.year as u32 % 100),
                Some('m') => two(self.month),
                Some('d') => two(self.day),
                Some('e') => format!("{:2}", self.day),
                Some('H') => two(self.hour),
                Some('I') => two(hour12),
                Some('M') => two(self.minute),
                Some('S') => two(self.second),
                Some('f') => "000000".to_string(),
                Some('j') if bare => self.day_of_year().to_string(),
                Some('j') => format!("{:03}", self.day_of_year()),
                Some('w') => self.weekday().to_string(),
                Some('A') => day.to_string(),
                Some('a') => day[..3].to_string(),
                Some('B') => month.to_string(),
                Some('b' | 'h') => month[..3].to_string(),
                Some('p') => if self.hour < 12 { "AM" } else { "PM" }.to_string(),
                Some('F') => format!("{}-{:02}-{:02}", self.year, self.month, self.day),
                Some('T' | 'X') => {
                    format!("{:02}:{:02}:{:02}", self.hour, self.minute, self.second)
                }
                Some('R') => format!("{:02}:{:02}", self.hour, self.minute),
                Some('D' | 'x') => {
                    format!("{:02}/{:02}/{:02}", self.month, self.day, self.year % 100)
                }
                Some('Z' | 'z') => String::new(), // datetime.now() has no zone
                Some('n') => "\n".to_string(),
                Some('t') => "\t".to_string(),
                Some('%') => "%".to_string(),
                other => {
                    return Err(Error::argument(format!(
                        "strftime_now does not know %{}",
                        other.map(String::from).unwrap_or_default()
                    )));
                }
            };
            out.push_str(&piece);
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_as_python_does() {
        let at = DateTime::parse("2024-07-26T15:04:05").unwrap();
        assert_eq!(at.strftime("%d %b %Y").unwrap(), "26 Jul 2024");
        assert_eq!(
            at.strftime("%A, %B %-d, %y %I:%M:%S %p %j %%").unwrap(),
            "Friday, July 26, 24 03:04:05 PM 208 %"
        );
        assert_eq!(DateTime::parse("2000-01-01").unwrap().weekday(), 6);
        assert_eq!(DateTime::parse("2026-11-21").unwrap().weekday(), 6);
        assert!(at.strftime("%Q").is_err());
    }

    #[test]
    fn refuses_what_is_no_date() {
        for text in [
            "",
            "2024",
            "2024-13-01",
            "2023-02-29",
            "2024-01-01T24:00:00",
            "2024-01-0é",
        ] {
            assert!(DateTime::parse(text).is_err(), "{text}");
        }
        assert!(DateTime::parse("2024-02-29").is_ok());
    }
}
