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

const ASSETS: &[Asset] = &[];

/// The file at this path.
pub(crate) fn find(path: &str) -> Option<Asset> {
    let path = if path == "/" { "/index.html" } else { path };
    ASSETS.iter().find(|asset| asset.path == path).copied()
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
