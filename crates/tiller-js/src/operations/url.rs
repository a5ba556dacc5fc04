//! URLs, by the WHATWG rules.

use std::path::Path;

use serde::Deserialize;
use serde_json::json;
use url::{Url, quirks};

use super::{OpError, OpInput, OpOutput, OpReply, unknown};

pub(super) fn sync(name: &str, op_input: &OpInput) -> OpReply {
    match name {
        "parse" => {
            let Parse { input, base } = op_input.read()?;
            let base = base.map(|base| parse(&base, None)).transpose()?;
            Ok(parts(&parse(&input, base.as_ref())?))
        }
        "set" => set(op_input.read()?),
        _ => Err(unknown(name)),
    }
}

pub(crate) fn file_url(path: &Path) -> String {
    Url::from_file_path(path).map_or_else(|()| path.display().to_string(), Url::into)
}

#[derive(Deserialize)]
struct Parse {
    input: String,
    #[serde(default)]
    base: Option<String>,
}

#[derive(Deserialize)]
struct Set {
    href: String,
    part: String,
    value: String,
}

fn parse(input: &str, base: Option<&Url>) -> Result<Url, OpError> {
    Url::options().base_url(base).parse(input).map_err(|_| {
        let mut failed = OpError::coded("ERR_INVALID_URL", "Invalid URL");
        failed.name = Some("TypeError");
        failed.fields.push(("input", input.into()));
        failed
    })
}

/// A part with an invalid value stays as it was.
fn set(Set { href, part, value }: Set) -> OpReply {
    let mut url = parse(&href, None)?;
    let done = match part.as_str() {
        "protocol" => quirks::set_protocol(&mut url, &value).is_ok(),
        "username" => quirks::set_username(&mut url, &value).is_ok(),
        "password" => quirks::set_password(&mut url, &value).is_ok(),
        "host" => quirks::set_host(&mut url, &value).is_ok(),
        "hostname" => quirks::set_hostname(&mut url, &value).is_ok(),
        "port" => quirks::set_port(&mut url, &value).is_ok(),
        "pathname" => {
            quirks::set_pathname(&mut url, &value);
            true
        }
        "search" => {
            quirks::set_search(&mut url, &value);
            true
        }
        "hash" => {
            quirks::set_hash(&mut url, &value);
            true
        }
        _ => false,
    };
    if done { Ok(parts(&url)) } else { Ok(parts(&parse(&href, None)?)) }
}

fn parts(url: &Url) -> OpOutput {
    OpOutput::json(&json!({
        "href": url.as_str(),
        "origin": quirks::origin(url),
        "protocol": quirks::protocol(url),
        "username": quirks::username(url),
        "password": quirks::password(url),
        "host": quirks::host(url),
        "hostname": quirks::hostname(url),
        "port": quirks::port(url),
        "pathname": quirks::pathname(url),
        "search": quirks::search(url),
        "hash": quirks::hash(url),
    }))
}
