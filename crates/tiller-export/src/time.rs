//! Readable times, in UTC. With scripting, the page shows the reader's local time.

use tiller_agent::message::UnixMs;
use tiller_session::time::{iso, read_iso};

/// `04:31` of a timestamp in the session file.
pub(crate) fn clock(timestamp: &str) -> Option<String> {
    read_iso(timestamp).map(|at| iso(at)[11..16].to_owned())
}

/// `2026-11-16 04:31 UTC`
pub(crate) fn date(at: UnixMs) -> String {
    let iso = iso(at);
    format!("{} {} UTC", &iso[..10], &iso[11..16])
}

/// `3 h 12 min`
pub(crate) fn length(ms: u64) -> String {
    let (seconds, minutes, hours) = (ms / 1000, ms / 60_000, ms / 3_600_000);
    match hours {
        0 if minutes == 0 => format!("{seconds} s"),
        0 => format!("{minutes} min"),
        1..48 => format!("{hours} h {} min", minutes % 60),
        _ => format!("{} days", hours / 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_for_people() {
        assert_eq!(clock("2026-11-16T04:31:59.000Z").as_deref(), Some("04:31"));
        assert_eq!(clock("yesterday"), None);
        assert_eq!(date(1_794_796_534_732), "2026-11-16 02:35 UTC");
        let lengths = [5_000, 65_000, 7_260_000, 400_000_000].map(length);
        assert_eq!(lengths.join(", "), "5 s, 1 min, 2 h 1 min, 4 days");
    }
}
