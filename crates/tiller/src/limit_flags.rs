//! The flags that limit what a prompt and the processes of tools may use.

use tiller_agent::limits::Limits;

#[derive(Debug, clap::Args)]
pub(crate) struct LimitFlags {
    /// Requests to the model per prompt
    #[arg(long, help_heading = "Limits", value_name = "N", value_parser = count)]
    max_turns: Option<u64>,
    /// Tool calls per prompt
    #[arg(long, help_heading = "Limits", value_name = "N", value_parser = count)]
    max_tool_calls: Option<u64>,
    /// Tokens per prompt
    #[arg(long, help_heading = "Limits", value_name = "N", value_parser = count)]
    max_tokens: Option<u64>,
    /// Dollars per prompt
    #[arg(long, help_heading = "Limits", value_name = "AMOUNT", value_parser = amount)]
    max_cost: Option<f64>,
    /// Seconds per prompt
    #[arg(long, help_heading = "Limits", value_name = "N", value_parser = amount)]
    max_seconds: Option<f64>,
    /// Memory of each process that a tool starts, such as 512M or 2G
    #[arg(long, help_heading = "Limits", value_name = "SIZE", value_parser = size)]
    tool_memory: Option<u64>,
    /// Seconds of each command that a tool starts
    #[arg(long, help_heading = "Limits", value_name = "N", value_parser = amount)]
    tool_seconds: Option<f64>,
}

impl LimitFlags {
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            max_turns: self.max_turns,
            max_tool_calls: self.max_tool_calls,
            max_tokens: self.max_tokens,
            max_cost: self.max_cost,
            max_seconds: self.max_seconds,
            tool_memory_bytes: self.tool_memory,
            tool_seconds: self.tool_seconds,
        }
    }
}

fn count(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "expected a whole number, such as 20".to_owned())
}

fn amount(text: &str) -> Result<f64, String> {
    let amount = text.parse().ok().filter(|amount: &f64| amount.is_finite() && *amount >= 0.0);
    amount.ok_or_else(|| "expected a number, such as 2 or 0.5".to_owned())
}

/// Bytes, or a number with one of the units K, M, G and T, which are powers of 1024.
fn size(text: &str) -> Result<u64, String> {
    let (number, shift) = match text.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&text[..at], 10),
        Some((at, 'm' | 'M')) => (&text[..at], 20),
        Some((at, 'g' | 'G')) => (&text[..at], 30),
        Some((at, 't' | 'T')) => (&text[..at], 40),
        _ => (text, 0),
    };
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    bytes.ok_or_else(|| "expected a size, such as 512M, 2G or a number of bytes".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_of_1024() {
        for (text, bytes) in [
            ("0", Some(0)),
            ("1048576", Some(1 << 20)),
            ("512k", Some(512 << 10)),
            ("512M", Some(512 << 20)),
            ("2G", Some(2 << 30)),
            ("1t", Some(1 << 40)),
            ("", None),
            ("M", None),
            ("-1M", None),
            ("1.5G", None),
            ("512MB", None),
            ("17179869184G", None),
            ("5µ", None),
        ] {
            assert_eq!(size(text).ok(), bytes, "{text}");
        }
    }

    #[test]
    fn amounts_are_finite_and_not_negative() {
        for (text, expected) in
            [("0", Some(0.0)), ("2.5", Some(2.5)), ("-1", None), ("inf", None), ("NaN", None)]
        {
            assert_eq!(amount(text).ok(), expected, "{text}");
        }
    }
}
