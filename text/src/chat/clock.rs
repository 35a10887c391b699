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

/// Bytes of what one directive becomes: a date and a time.
pub const LONGEST_DIRECTIVE: usize = 24;

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
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Self::at(since.map_or(0, |d| d.as_secs() as libc::time_t))
    }

    /// So many seconds after 1970 in the time zone of this machine.
    fn at(seconds: libc::time_t) -> Self {
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

    /// 0 is Monday.
    fn weekday_from_monday(&self) -> u32 {
        (self.weekday() + 6) % 7
    }

    /// Weeks of the year that have begun; the first one on the first of those days that are 0.
    fn week(&self, weekday: u32) -> u32 {
        (self.day_of_year() + 6 - weekday) / 7
    }

    /// Year and week of ISO 8601: a week belongs to the year of its Thursday.
    fn iso_week(&self) -> (i32, u32) {
        let thursday = self.day_of_year() as i32 + 3 - self.weekday_from_monday() as i32;
        let days = |year| 365 + i32::from(leap(year));
        let (year, day) = if thursday < 1 {
            (self.year - 1, thursday + days(self.year - 1))
        } else if thursday > days(self.year) {
            (self.year + 1, thursday - days(self.year))
        } else {
            (self.year, thursday)
        };
        (year, (day as u32).div_ceil(7))
    }

    /// Seconds since 1970, in the time zone of this machine.
    fn epoch(&self) -> libc::time_t {
        // SAFETY: mktime reads and writes a valid local alone.
        unsafe {
            let mut parts: libc::tm = std::mem::zeroed();
            parts.tm_year = self.year - 1900;
            parts.tm_mon = self.month as i32 - 1;
            parts.tm_mday = self.day as i32;
            parts.tm_hour = self.hour as i32;
            parts.tm_min = self.minute as i32;
            parts.tm_sec = self.second as i32;
            parts.tm_isdst = -1; // whether it is summer time follows from the date
            libc::mktime(&mut parts)
        }
    }

    /// What glibc writes in the locale C, and Python with it, with at most one of the flags "-" (no
    /// padding), "_" (spaces), "0" (zeros) and "^" (upper case).
    pub fn strftime(&self, format: &str) -> Result<String> {
        let mut out = String::new();
        let mut chars = format.chars().peekable();
        while let Some(c) = chars.next() {
            if c != '%' || chars.peek().is_none() {
                out.push(c);
                continue;
            }
            let flag = chars.next_if(|c| matches!(c, '-' | '_' | '0' | '^'));
            let padding = flag.filter(|f| *f != '^');
            let padded = |n: u32, width: usize, usual: char| match padding.unwrap_or(usual) {
                '-' => n.to_string(),
                '_' => format!("{n:width$}"),
                _ => format!("{n:0width$}"),
            };
            let two = |n: u32| padded(n, 2, '0');
            let two_or_space = |n: u32| padded(n, 2, '_');
            let hour12 = (self.hour + 11) % 12 + 1;
            let day = DAYS[self.weekday() as usize];
            let month = MONTHS[self.month as usize - 1];
            let half = if self.hour < 12 { "AM" } else { "PM" };
            let (iso_year, iso_week) = self.iso_week();
            let directive = chars.next();
            let piece = match directive {
                Some('Y') => self.year.to_string(),
                Some('C') => two(self.year as u32 / 100),
                Some('y') => two(self.year as u32 % 100),
                Some('G') => iso_year.to_string(),
                Some('g') => two(iso_year as u32 % 100),
                Some('V') => two(iso_week),
                Some('U') => two(self.week(self.weekday())),
                Some('W') => two(self.week(self.weekday_from_monday())),
                Some('m') => two(self.month),
                Some('d') => two(self.day),
                Some('e') => two_or_space(self.day),
                Some('H') => two(self.hour),
                Some('k') => two_or_space(self.hour),
                Some('I') => two(hour12),
                Some('l') => two_or_space(hour12),
                Some('M') => two(self.minute),
                Some('S') => two(self.second),
                Some('s') => self.epoch().to_string(),
                Some('f') if flag.is_none() => "000000".to_string(),
                Some('j') => padded(self.day_of_year(), 3, '0'),
                Some('w') => self.weekday().to_string(),
                Some('u') => (self.weekday_from_monday() + 1).to_string(),
                Some('A') => day.to_string(),
                Some('a') => day[..3].to_string(),
                Some('B') => month.to_string(),
                Some('b' | 'h') => month[..3].to_string(),
                Some('p') => half.to_string(),
                Some('P') => half.to_lowercase(),
                Some('c') => self.strftime("%a %b %e %H:%M:%S %Y")?,
                Some('F') => self.strftime("%Y-%m-%d")?,
                Some('T' | 'X') => self.strftime("%H:%M:%S")?,
                Some('R') => self.strftime("%H:%M")?,
                Some('r') => self.strftime("%I:%M:%S %p")?,
                Some('D' | 'x') => self.strftime("%m/%d/%y")?,
                Some('Z' | 'z') => String::new(), // datetime.now() has no zone
                Some('n') => "\n".to_string(),
                Some('t') => "\t".to_string(),
                Some('%') => "%".to_string(),
                _ => {
                    let name: String = ['%'].into_iter().chain(flag).chain(directive).collect();
                    return Err(Error::unsupported(format!(
                        "strftime_now does not know {}",
                        quote(&name)
                    )));
                }
            };
            match flag {
                Some('^') if directive != Some('P') => out.push_str(&piece.to_uppercase()),
                _ => out.push_str(&piece),
            }
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
    }

    #[test]
    fn years_have_the_weeks_of_python() {
        for (date, weeks) in [
            ("2021-01-01", "00 00 2020 20 53 5"),
            ("2021-01-03", "01 00 2020 20 53 7"),
            ("2021-01-04", "01 01 2021 21 01 1"),
            ("2024-12-30", "52 53 2025 25 01 1"),
            ("2000-01-01", "00 00 1999 99 52 6"),
            ("2016-01-03", "01 00 2015 15 53 7"),
        ] {
            let at = DateTime::parse(date).unwrap();
            assert_eq!(at.strftime("%U %W %G %g %V %u").unwrap(), weeks, "{date}");
        }
    }

    #[test]
    fn a_directive_that_is_not_known_is_the_fault_of_the_model() {
        let at = DateTime::parse("2024-07-26").unwrap();
        for format in ["%Q", "%-", "%Ey", "%5d", "%-f"] {
            let error = at.strftime(format).unwrap_err();
            assert_eq!(error.code, crate::error::Code::UnsupportedModel, "{format}");
        }
        let error = at.strftime("at %^Q").unwrap_err();
        assert_eq!(error.message, "strftime_now does not know \"%^Q\"");
    }

    #[test]
    fn seconds_are_counted_in_the_zone_of_this_machine() {
        let at = DateTime::parse("2024-07-26T15:04:05").unwrap();
        let seconds = at.strftime("%s").unwrap().parse().unwrap();
        assert_eq!(DateTime::at(seconds), at);
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
