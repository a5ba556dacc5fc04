//! Figures of a table.

use std::time::Duration;

/// Times of the same task.
#[derive(Clone, Debug, Default)]
pub struct Times(Vec<Duration>);

impl Times {
    pub fn of(times: impl IntoIterator<Item = Duration>) -> Times {
        let mut times: Vec<Duration> = times.into_iter().collect();
        times.sort_unstable();
        Times(times)
    }

    /// So many percent took at most as long.
    pub fn percentile(&self, percent: usize) -> Duration {
        self.0.get((self.0.len() * percent / 100).min(self.0.len() - 1)).copied().expect("some ran")
    }

    pub fn median(&self) -> Duration {
        self.percentile(50)
    }

    pub fn longest(&self) -> Duration {
        self.percentile(100)
    }
}

/// A time in milliseconds, with three digits.
pub fn ms(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    match ms {
        100.0.. => format!("{ms:.0} ms"),
        10.0.. => format!("{ms:.1} ms"),
        1.0.. => format!("{ms:.2} ms"),
        _ => format!("{ms:.3} ms"),
    }
}

/// The same for each of so many.
pub fn ms_each(time: Duration, count: usize) -> String {
    ms(time / u32::try_from(count).unwrap_or(u32::MAX).max(1))
}

pub fn per_second(count: usize, time: Duration) -> String {
    format!("{:.0}", count as f64 / time.as_secs_f64())
}

pub fn mb(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// A table: the first column is text, the others are numbers.
pub struct Table(String);

impl Table {
    pub fn new(columns: &[&str]) -> Table {
        let lines = columns.iter().enumerate().map(|(at, _)| if at == 0 { "---" } else { "---:" });
        let lines: Vec<&str> = lines.collect();
        Table(format!("| {} |\n|{}|\n", columns.join(" | "), lines.join("|")))
    }

    pub fn row(&mut self, cells: &[String]) {
        self.0 += &format!("| {} |\n", cells.join(" | "));
    }

    pub fn text(self) -> String {
        self.0
    }
}
