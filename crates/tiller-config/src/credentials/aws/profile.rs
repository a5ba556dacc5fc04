//! A profile of Amazon's tools: its section in `~/.aws/credentials` and `~/.aws/config`.

use std::collections::HashMap;
use std::path::PathBuf;

pub(super) struct Profile {
    name: String,
    values: HashMap<String, String>,
}

impl Profile {
    /// The profile these variables select, else the default one. Empty if it is not in either file.
    pub(super) fn find<'a>(variable: impl Fn(&str) -> Option<&'a str>) -> Profile {
        let name = variable("AWS_PROFILE").unwrap_or("default");
        let home = variable("HOME").map(PathBuf::from);
        let file = |chosen: &str, default: &str| {
            let default = home.as_ref().map(|home| home.join(default));
            let path = variable(chosen).map(PathBuf::from).or(default);
            // An unreadable file counts as empty, as in Amazon's own tools.
            path.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default()
        };
        let config = file("AWS_CONFIG_FILE", ".aws/config");
        let credentials = file("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials");
        Profile::read(name, &config, &credentials)
    }

    fn read(name: &str, config: &str, credentials: &str) -> Profile {
        let mut values = HashMap::new();
        // Sections are called `[profile NAME]` in `config` (except `[default]`) and `[NAME]` in
        // `credentials`.
        let profile = format!("profile {name}");
        section(
            config,
            |title| title == profile || (name == "default" && title == name),
            &mut values,
        );
        // `credentials` takes precedence over `config`.
        section(credentials, |title| title == name, &mut values);
        Profile { name: name.to_owned(), values }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }
}

/// Reads `key = value` lines of the wanted sections, with comments after `#` and `;`. Indented
/// lines continue the one above; none of the keys we read use them.
fn section(file: &str, is_wanted: impl Fn(&str) -> bool, values: &mut HashMap<String, String>) {
    let mut inside = false;
    for line in file.trim_start_matches('\u{feff}').lines() {
        if line.starts_with([' ', '\t', '#', ';']) || line.trim().is_empty() {
            continue;
        }
        if let Some(title) = line.strip_prefix('[') {
            let title = title.split(']').next().unwrap_or_default();
            let words: Vec<&str> = title.split_whitespace().collect();
            inside = is_wanted(&words.join(" "));
        } else if let Some((key, value)) = line.split_once('=').filter(|_| inside) {
            let comment =
                [" #", " ;", "\t#", "\t;"].iter().filter_map(|mark| value.find(mark)).min();
            let value = &value[..comment.unwrap_or(value.len())];
            values.insert(key.trim().to_lowercase(), value.trim().to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    const CONFIG: &str = "\
# A comment.
[default]
region = eu-west-1
s3 =
  region = nowhere
[profile work]
region=us-west-2 # Oregon
aws_access_key_id = from-config
Credential_Process = /usr/bin/keys --for 'work;play' ; printed
[ profile   spaced ]
region = ap-south-1
[work]
region = wrong
[profile broken
region = eu-north-1
nonsense
[sso-session x]
region = wrong
";
    const CREDENTIALS: &str = "\
[default]
aws_access_key_id = AKID
aws_secret_access_key = a=b/c+d#e
aws_session_token =
[work]
aws_access_key_id = from-credentials
[profile spaced]
region = wrong
";

    fn check(name: &str, expect: Expect) {
        let profile = Profile::read(name, CONFIG, CREDENTIALS);
        let mut lines: Vec<String> =
            profile.values.iter().map(|(key, value)| format!("{key}: {value}\n")).collect();
        lines.sort_unstable();
        expect.assert_eq(&lines.concat());
    }

    #[test]
    fn profile_merges_config_and_credentials() {
        check(
            "default",
            expect![[r#"
            aws_access_key_id: AKID
            aws_secret_access_key: a=b/c+d#e
            aws_session_token: 
            region: eu-west-1
            s3: 
        "#]],
        );
        check(
            "work",
            expect![[r#"
            aws_access_key_id: from-credentials
            credential_process: /usr/bin/keys --for 'work;play'
            region: us-west-2
        "#]],
        );
        check(
            "spaced",
            expect![[r#"
            region: ap-south-1
        "#]],
        );
        check(
            "broken",
            expect![[r#"
            region: eu-north-1
        "#]],
        );
        check("nobody", expect![[""]]);
    }
}
