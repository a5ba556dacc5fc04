//! Timestamps as text: ISO 8601 in UTC with milliseconds, as JavaScript prints a date.

use crate::message::UnixMs;

const DAY_MS: u64 = 86_400_000;

/// `2026-11-15T20:39:16.762Z`
pub fn iso(ms: UnixMs) -> String {
    let (year, month, day) = civil(ms / DAY_MS);
    let ms = ms % DAY_MS;
    let hour = ms / 3_600_000;
    let minute = ms / 60_000 % 60;
    let second = ms / 1000 % 60;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", ms % 1000)
}

/// Parses the output of [`iso`], also with an offset or without a fraction.
pub fn read_iso(text: &str) -> Option<UnixMs> {
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = text.get(from..to)?;
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        digits.parse().ok()
    };
    let bytes = text.as_bytes();
    let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if separators.iter().any(|&(at, expected)| bytes.get(at) != Some(&expected)) {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let mut rest = text.get(19..)?;
    let mut fraction_ms = 0;
    if let Some(after) = rest.strip_prefix('.') {
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        let three: String = after[..digits].chars().chain("000".chars()).take(3).collect();
        fraction_ms = three.parse().ok()?;
        rest = &after[digits..];
    }
    let days = days_since_1970(year, month, day);
    let seconds = ((days * 24 + hour) * 60 + minute) * 60 + second - offset_seconds(rest)?;
    UnixMs::try_from(seconds * 1000 + fraction_ms).ok()
}

/// `Z`, or `+02:00`.
fn offset_seconds(zone: &str) -> Option<i64> {
    let (sign, clock) = match zone.as_bytes() {
        [b'Z'] => return Some(0),
        [b'+', ..] => (1, &zone[1..]),
        [b'-', ..] => (-1, &zone[1..]),
        _ => return None,
    };
    let (hours, minutes) = clock.split_once(':')?;
    Some(sign * (hours.parse::<i64>().ok()? * 3600 + minutes.parse::<i64>().ok()? * 60))
}

// Both directions count years from March, so that the leap day is the last of its year:
// https://howardhinnant.github.io/date_algorithms.html

fn civil(days: u64) -> (u64, u64, u64) {
    let z = days + 719_468;
    let era = z / 146_097;
    let day_of_era = z % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let shifted = (month + 9) % 12;
    let day_of_year = (153 * shifted + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_in_javascript_and_parsed_back() {
        let known = [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_007, "2000-02-29T00:00:00.007Z"),
            (1_735_787_045_000, "2025-01-02T03:04:05.000Z"),
            (1_794_775_156_762, "2026-11-15T20:39:16.762Z"),
            (4_107_542_399_999, "2100-02-28T23:59:59.999Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ];
        for (ms, text) in known {
            assert_eq!(iso(ms), text);
            assert_eq!(read_iso(text), Some(ms));
        }
        for ms in (0..5_000_000_000_000).step_by(86_399_999 * 37) {
            assert_eq!(read_iso(&iso(ms)), Some(ms));
        }
    }

    #[test]
    fn offsets_are_parsed_and_invalid_times_refused() {
        assert_eq!(read_iso("1970-01-01T00:00:01Z"), Some(1000));
        assert_eq!(read_iso("1970-01-01T02:00:01.5+02:00"), Some(1500));
        assert_eq!(read_iso("1970-01-01T00:00:00.123456Z"), Some(123));
        for nonsense in ["", "now", "1970-13-01T00:00:00Z", "1970-01-01T00:00:00", "1970-01-01Tüü"]
        {
            assert_eq!(read_iso(nonsense), None, "{nonsense}");
        }
        assert_eq!(read_iso("1969-12-31T23:59:59.000Z"), None);
    }
}
