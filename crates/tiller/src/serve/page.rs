//! The page of `--web`: its files, which are part of the program.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};

use super::http::with_type;

/// Only the page's own files run or are shown, and it talks only to this server.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' \
                      data:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

/// A file of the page.
#[derive(Clone, Copy)]
pub(crate) struct Asset {
    path: &'static str,
    kind: &'static str,
    text: &'static str,
}

/// The files in `assets/web`, each at its path.
macro_rules! assets {
    ($($name:literal: $kind:expr,)*) => {
        &[$(Asset {
            path: concat!("/web/", $name),
            kind: $kind,
            text: include_str!(concat!("../../assets/web/", $name)),
        },)*]
    };
}

const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

const INDEX: Asset = Asset {
    path: "/index.html",
    kind: "text/html; charset=utf-8",
    text: include_str!("../../assets/web/index.html"),
};

const ASSETS: &[Asset] = assets! {
    "app.js": SCRIPT,
    "attachment.js": SCRIPT,
    "base.css": CSS,
    "cards.js": SCRIPT,
    "composer.js": SCRIPT,
    "connection.js": SCRIPT,
    "conversation.css": CSS,
    "conversation.js": SCRIPT,
    "dialogs.js": SCRIPT,
    "diff-view.js": SCRIPT,
    "diff.js": SCRIPT,
    "dom.js": SCRIPT,
    "loading.js": SCRIPT,
    "markdown-view.js": SCRIPT,
    "markdown.js": SCRIPT,
    "messages.js": SCRIPT,
    "meter.js": SCRIPT,
    "panel.js": SCRIPT,
    "session-view.js": SCRIPT,
    "sessions.js": SCRIPT,
    "text.js": SCRIPT,
};

/// The file at this path.
pub(crate) fn find(path: &str) -> Option<Asset> {
    if path == "/" {
        return Some(INDEX);
    }
    ASSETS.iter().chain([&INDEX]).find(|asset| asset.path == path).copied()
}

impl Asset {
    pub(crate) fn response(self) -> Response<Full<Bytes>> {
        let body = Bytes::from_static(self.text.as_bytes());
        let mut response = with_type(StatusCode::OK, self.kind, body);
        let policy = HeaderValue::from_static(POLICY);
        response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
        response
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_file_of_the_page_is_served() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/web");
        let mut names: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.retain(|name| name != "index.html");
        names.sort();
        let served: Vec<&str> =
            ASSETS.iter().filter_map(|asset| asset.path.strip_prefix("/web/")).collect();
        assert_eq!(served, names);
    }

    #[test]
    fn other_paths_are_not_served() {
        for path in ["/web/", "/web/../index.html", "/index.htm", "/web/app.js/", ""] {
            assert!(find(path).is_none(), "{path}");
        }
        assert_eq!(find("/").unwrap().text, find("/index.html").unwrap().text);
    }
}
