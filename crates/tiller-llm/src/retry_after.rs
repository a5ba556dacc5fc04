//! The delay that a server asks for: in a header, in a field of the error, or only in its text.

use std::time::{Duration, SystemTime};

use reqwest::header::HeaderMap;
use serde::Deserialize;

/// In a header: `retry-after-ms`, or `retry-after` in seconds or as a date.
pub(crate) fn in_header(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let number = |text: &str| text.trim().parse::<f64>().ok();
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(ms) = header("retry-after-ms").and_then(number) {
        return Duration::try_from_secs_f64(ms / 1000.0).ok();
    }
    let value = header("retry-after")?;
    match number(value) {
        Some(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        None => {
            let date = httpdate::parse_http_date(value.trim()).ok()?;
            // A date in the past means now.
            Some(date.duration_since(now).unwrap_or_default())
        }
    }
}

/// In the error itself.
pub(crate) fn in_body(body: &str) -> Option<Duration> {
    retry_info(body).or_else(|| from_text(body))
}

/// Google's `RetryInfo` in the details of an error: `"retryDelay": "13.5s"`.
pub(crate) fn retry_info(body: &str) -> Option<Duration> {
    #[derive(Deserialize)]
    struct Body {
        error: Error,
    }
    #[derive(Deserialize)]
    struct Error {
        details: Vec<Detail>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Detail {
        #[serde(rename = "@type", default)]
        kind: String,
        retry_delay: Option<String>,
    }
    let body: Body = serde_json::from_str(body).ok()?;
    let mut details = body.error.details.into_iter();
    let info = details.find(|detail| detail.kind.ends_with("google.rpc.RetryInfo"))?;
    let delay = info.retry_delay?;
    let (wait, rest) = span(&delay)?;
    rest.is_empty().then_some(wait)
}

/// OpenAI and compatible servers: "Please try again in 1m2.5s." and "retry after 20 seconds".
fn from_text(text: &str) -> Option<Duration> {
    const BEFORE: [&str; 4] = ["try again in ", "retry in ", "try again after ", "retry after "];
    let text = text.to_lowercase();
    let after = BEFORE.iter().find_map(|before| text.split_once(before))?.1;
    span(after).map(|(wait, _)| wait)
}

/// A duration such as `1h2m3.5s`, `20ms` or `6 seconds`, and the text after it.
fn span(text: &str) -> Option<(Duration, &str)> {
    let mut rest = text;
    let mut wait = None;
    loop {
        let digits = rest.bytes().take_while(|byte| matches!(byte, b'0'..=b'9' | b'.')).count();
        let after = rest[digits..].trim_start_matches(' ');
        let letters = after.bytes().take_while(u8::is_ascii_alphabetic).count();
        let seconds = match &after[..letters] {
            "ms" | "milliseconds" => 0.001,
            "s" | "sec" | "second" | "seconds" => 1.0,
            "m" | "min" | "minute" | "minutes" => 60.0,
            "h" | "hour" | "hours" => 3600.0,
            _ => return Some((wait?, rest)),
        };
        let Ok(number) = rest[..digits].parse::<f64>() else { return Some((wait?, rest)) };
        let part = Duration::try_from_secs_f64(number * seconds).ok()?;
        wait = Some(wait.unwrap_or(Duration::ZERO).checked_add(part)?);
        rest = &after[letters..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header() {
        let now = httpdate::parse_http_date("Wed, 21 Oct 2015 07:28:00 GMT").unwrap();
        let after = |name: &'static str, value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            in_header(&headers, now).map(|after| after.as_secs_f64())
        };
        assert_eq!(after("retry-after", "7"), Some(7.0));
        assert_eq!(after("retry-after", "0.5"), Some(0.5));
        assert_eq!(after("retry-after-ms", "1250"), Some(1.25));
        assert_eq!(after("retry-after", "Wed, 21 Oct 2015 07:28:30 GMT"), Some(30.0));
        assert_eq!(after("retry-after", "Wed, 21 Oct 2015 07:27:00 GMT"), Some(0.0));
        for odd in ["soon", "-1", "NaN", "inf", ""] {
            assert_eq!(after("retry-after", odd), None, "{odd}");
        }
        assert_eq!(after("x-other", "7"), None);
    }

    #[test]
    fn a_field() {
        let after = |delay: &str| {
            let kind = "type.googleapis.com/google.rpc.RetryInfo";
            let details = format!(r#"[{{"links":[]}},{{"@type":"{kind}","retryDelay":{delay}}}]"#);
            let body = format!(r#"{{"error":{{"code":429,"details":{details}}}}}"#);
            in_body(&body).map(|after| after.as_secs_f64())
        };
        assert_eq!(after(r#""13.500s""#), Some(13.5));
        assert_eq!(after(r#""0s""#), Some(0.0));
        for odd in [r#""soon""#, r#""5s or so""#, r#""5""#, r#""-5s""#, "5", "null"] {
            assert_eq!(after(odd), None, "{odd}");
        }
        assert_eq!(in_body(r#"{"error":{"details":[{"retryDelay":"5s"}]}}"#), None);
    }

    #[test]
    fn words() {
        let after = |text: &str| in_body(text).map(|after| after.as_secs_f64());
        assert_eq!(after("Rate limit reached. Please try again in 2.3s. Visit x"), Some(2.3));
        assert_eq!(after(r#"{"error":{"message":"Please try again in 20ms."}}"#), Some(0.02));
        assert_eq!(after("try again in 1m30.5s"), Some(90.5));
        assert_eq!(after("Try again in 1h0m0s."), Some(3600.0));
        assert_eq!(after("Please retry in 39.25s."), Some(39.25));
        assert_eq!(after("please retry after 6 seconds, or later"), Some(6.0));
        assert_eq!(after("try again in 1 minute"), Some(60.0));
        for odd in [
            "try again in a while",
            "try again in 5",
            "try again in .s",
            "try again in 1e300 s",
            "try again in 99999999999999999999999h",
            "try again",
            "",
        ] {
            assert_eq!(after(odd), None, "{odd}");
        }
    }
}
