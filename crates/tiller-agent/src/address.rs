//! Server URLs that may contain a password: `https://user:password@host/path`.

use std::borrow::Cow;
use std::ops::Range;

/// Replaces a password.
const MASK: &str = "***";

/// The URL without its password, or without the user name if that stands alone: it is a token then.
pub fn shown(url: &str) -> Cow<'_, str> {
    match password(url) {
        Some(at) => Cow::Owned(format!("{}{MASK}{}", &url[..at.start], &url[at.end..])),
        None => Cow::Borrowed(url),
    }
}

/// The texts to mask in output: the password, and the whole authority part, since a very short
/// password may equal an ordinary word.
pub fn secrets(url: &str) -> Vec<String> {
    let Some(at) = password(url) else { return Vec::new() };
    vec![url[at].to_owned(), url[authority(url)].to_owned()]
}

fn password(url: &str) -> Option<Range<usize>> {
    let authority = authority(url);
    let user = url[authority.clone()].rfind('@')?;
    let end = authority.start + user;
    let start = match url[authority.start..end].find(':') {
        Some(colon) => authority.start + colon + 1,
        None => authority.start,
    };
    (start < end).then_some(start..end)
}

/// User, password, host and port.
fn authority(url: &str) -> Range<usize> {
    let start = url.find("://").map_or(0, |scheme| scheme + "://".len());
    let end = url[start..].find(['/', '\\', '?', '#']).map_or(url.len(), |end| start + end);
    start..end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_passwords_are_masked() {
        for (url, expected) in [
            ("https://api.example.com/v1", "https://api.example.com/v1"),
            ("https://me:secret@host:8080/v1", "https://me:***@host:8080/v1"),
            ("https://me:se@c:ret@host/v1?a=b@c", "https://me:***@host/v1?a=b@c"),
            ("https://token@host", "https://***@host"),
            ("https://:secret@host", "https://:***@host"),
            ("https://me:@host", "https://me:@host"),
            ("https://host/a:b@c", "https://host/a:b@c"),
            ("https://host?a:b@c", "https://host?a:b@c"),
            ("me:secret@host/v1", "me:***@host/v1"),
            ("", ""),
        ] {
            assert_eq!(shown(url), expected, "{url}");
        }
        assert_eq!(secrets("https://me:pw@host/v1"), ["pw", "me:pw@host"]);
        assert_eq!(secrets("https://host/v1"), [""; 0]);
    }
}
