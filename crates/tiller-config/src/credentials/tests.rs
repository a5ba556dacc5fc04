use std::fs;
use std::os::unix::fs::PermissionsExt;

use expect_test::{Expect, expect};
use serde_json::{Value as Json, json};
use tempfile::TempDir;

use super::*;

struct Fixture {
    folder: TempDir,
    variables: HashMap<String, String>,
}

impl Fixture {
    fn new(auth: &Json, variables: &[(&str, &str)]) -> Fixture {
        let pairs = variables.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        let place = Fixture { folder: tempfile::tempdir().unwrap(), variables: pairs.collect() };
        place.write(&auth.to_string());
        place
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("auth.json")
    }

    fn write(&self, text: &str) {
        fs::write(self.path(), text).unwrap();
        fs::set_permissions(self.path(), fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn load(&self) -> (Credentials, Vec<String>) {
        let mut diagnostics = Vec::new();
        let files = ConfigFiles::in_folder(self.folder.path());
        let variables = Arc::new(self.variables.clone());
        let credentials = Credentials::load(&files, variables, &mut diagnostics);
        (credentials, diagnostics)
    }
}

/// A provider's key and its source.
fn shown(credentials: &Credentials, provider: &str) -> String {
    let source = credentials.source(provider).map(|source| source.to_string());
    let key = match credentials.key(provider) {
        Ok(Key::Known(key)) => key,
        Ok(Key::Printed { once, .. }) => {
            format!("a command, run {}", if once.is_some() { "once" } else { "each time" })
        }
        Ok(Key::SignedIn(_)) => "of a sign-in".to_owned(),
        Ok(Key::Ambient) => "no key".to_owned(),
        Err(Some(why)) => format!("! {why}"),
        Err(None) => "nothing".to_owned(),
    };
    format!("{provider}: {key} from {}\n", source.unwrap_or("nowhere".into()))
}

fn check(auth: &Json, variables: &[(&str, &str)], providers: &[&str], expected: Expect) {
    let place = Fixture::new(auth, variables);
    let (mut credentials, diagnostics) = place.load();
    assert_eq!(diagnostics, Vec::<String>::new());
    credentials.set_command_line("given", "from the command line");
    credentials.add_models_file_key("described", ConfigValue::read("a $WORD"));
    credentials.add_models_file_key("commanded", ConfigValue::read("!cat key"));
    credentials.add_models_file_key("groq", ConfigValue::read("groq of models.json"));
    let report: String = providers.iter().map(|name| shown(&credentials, name)).collect();
    expected.assert_eq(&report);
}

#[test]
fn sources_are_tried_in_order_of_precedence() {
    let auth = json!({
        "given": {"type": "api_key", "key": "x"},
        "groq": {"type": "api_key", "key": "groq of auth.json"},
        "openai": {"type": "api_key", "key": "$MY_OPENAI"},
        "xai": {"type": "api_key", "key": "!pass xai"},
        "mistral": {"type": "api_key", "key": "$NONE"},
        "deepseek": {"type": "api_key", "key": "$NONE"},
        "account": {"type": "api_key", "key": "${NUMBER}!", "env": {"NUMBER": "42"}},
        "anthropic": {"type": "oauth", "access": "old", "refresh": "r", "expires": 1_000},
        "google": {"type": "oauth", "access": "old", "refresh": "r", "expires": 1_000},
        "github-copilot": {"type": "oauth", "access": "new", "refresh": "r",
            "expires": 32_503_680_000_000u64},
        "huggingface": {"type": "oauth", "access": "for ever"},
    });
    let variables = [
        ("WORD", "word"),
        ("MY_OPENAI", "mine"),
        ("OPENAI_API_KEY", "not this one"),
        ("GEMINI_API_KEY", "gemini"),
        ("MISTRAL_API_KEY", "mistral"),
        ("AWS_PROFILE", "work"),
    ];
    let providers = [
        "given",
        "groq",
        "described",
        "commanded",
        "openai",
        "xai",
        "mistral",
        "deepseek",
        "account",
        "anthropic",
        "google",
        "github-copilot",
        "huggingface",
        "amazon-bedrock",
        "nobody",
    ];
    check(
        &auth,
        &variables,
        &providers,
        expect![[r#"
            given: from the command line from --api-key
            groq: groq of auth.json from auth.json
            described: a word from models.json
            commanded: a command, run each time from models.json
            openai: mine from auth.json
            xai: a command, run once from auth.json
            mistral: mistral from environment (MISTRAL_API_KEY)
            deepseek: ! in auth.json: the variable NONE is not set from nowhere
            account: 42! from auth.json
            anthropic: ! the sign-in in auth.json expired 1970-01-01T00:00:01.000Z. Sign in again with the program that wrote it to auth.json (in pi: `/login`) from nowhere
            google: gemini from environment (GEMINI_API_KEY)
            github-copilot: new from auth.json (signed in until 3000-01-01T00:00:00.000Z)
            huggingface: for ever from auth.json (signed in)
            amazon-bedrock: no key from environment (AWS_PROFILE)
            nobody: nothing from nowhere
        "#]],
    );
}

#[test]
fn errors_in_auth_json_do_not_quote_secrets() {
    let place = Fixture::new(&json!({}), &[]);
    let report = |text: &str| {
        place.write(text);
        place.load().1.join("\n").replace(&place.folder.path().display().to_string(), "DIR")
    };
    expect![[r#"
        cannot read DIR/auth.json: EOF while parsing an object at line 1 column 44
        DIR/auth.json: expected an object
        DIR/auth.json: `a` is ignored: neither an api_key nor an oauth entry
        DIR/auth.json: `b` is ignored: neither an api_key nor an oauth entry
    "#]]
    .assert_eq(
        &[
            report("{\"a\": {\"type\": \"api_key\", \"key\": \"sk-secret\""),
            report("[\"sk-secret\"]"),
            report(
                "{\"a\": \"sk-secret\", \"b\": {\"type\": \"api_key\", \"key\": [\"sk-secret\"]}}",
            ),
            report("// Comments are fine.\n{\"a\": {\"type\": \"api_key\", \"key\": \"k\"},}"),
        ]
        .join("\n"),
    );
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o640)).unwrap();
    assert!(place.load().1[0].contains("can be read by other users"));
    fs::remove_file(place.path()).unwrap();
    assert!(place.load().1.is_empty());
}

#[test]
fn key_added_while_running_is_used() {
    let place = Fixture::new(&json!({}), &[]);
    let (credentials, _) = place.load();
    assert!(!credentials.has("openai"));
    set(&place.path(), "openai", "first").unwrap();
    assert_eq!(shown(&credentials, "openai"), "openai: first from auth.json\n");
    set(&place.path(), "openai", "other").unwrap();
    assert_eq!(shown(&credentials, "openai"), "openai: other from auth.json\n");
    remove(&place.path(), "openai").unwrap();
    assert!(!credentials.has("openai"));
    fs::remove_file(place.path()).unwrap();
    assert!(!credentials.has("openai"));
}

#[tokio::test]
async fn stored_command_runs_once_until_the_file_changes() {
    let place = Fixture::new(&json!({}), &[]);
    let count = place.folder.path().join("count");
    let command = format!("!echo x >> {0}; wc -l < {0}", count.display());
    let (mut credentials, _) = place.load();
    let ask = async |credentials: &Credentials, provider: &str| {
        let key = credentials.key(provider).unwrap();
        key.find(provider, credentials.variables()).await.unwrap().unwrap()
    };
    set(&place.path(), "openai", &command).unwrap();
    assert!(credentials.has("openai"));
    assert!(!count.exists(), "looking up the key must not run the command");
    assert_eq!(ask(&credentials, "openai").await, "1");
    assert_eq!(ask(&credentials, "openai").await, "1");
    set(&place.path(), "other", "key").unwrap();
    assert_eq!(ask(&credentials, "openai").await, "2");
    credentials.add_models_file_key("described", ConfigValue::read(&command));
    assert_eq!(ask(&credentials, "described").await, "3");
    assert_eq!(ask(&credentials, "described").await, "4");
}

#[test]
fn secrets_of_all_sources_are_listed() {
    let auth = json!({
        "plain": {"type": "api_key", "key": "sk-plain-1", "env": {"REGION": "eu-west-9", "SIDE_TOKEN": "t-side-token"}},
        "filled": {"type": "api_key", "key": "pre-$OWN"},
        "printed": {"type": "api_key", "key": "!cat /dev/null"},
        "signed": {"type": "oauth", "access": "oat-access", "refresh": "ort-refresh", "expires": 1},
        "odd": {"type": "new", "deep": [{"secret": "odd-secret"}]},
    });
    let variables = [
        ("OWN", "own-value"),
        ("OPENAI_API_KEY", "sk-openai"),
        ("GITHUB_TOKEN", "ghp-1"),
        ("AWS_SECRET_ACCESS_KEY", "aws-1"),
        ("HOME", "/home/ada"),
        ("TOKENIZERS_PARALLELISM", "false"),
    ];
    let place = Fixture::new(&auth, &variables);
    let (mut credentials, _) = place.load();
    credentials.set_command_line("p", "sk-given");
    credentials.add_models_file_key("m", ConfigValue::read("sk-$OWN"));
    let mut secrets = credentials.secrets();
    secrets.sort();
    let expected = expect![
        "aws-1 ghp-1 new oat-access oauth odd-secret ort-refresh pre-own-value sk-given sk-openai sk-own-value sk-plain-1 t-side-token"
    ];
    expected.assert_eq(&secrets.join(" "));
}

#[test]
fn azure_key_is_found_under_its_newer_name() {
    let place = Fixture::new(&json!({"azure": {"type": "api_key", "key": "k"}}), &[]);
    let (credentials, _) = place.load();
    assert!(credentials.has("azure-openai-responses"));
    assert!(matches!(credentials.key("azure-openai-responses"), Ok(Key::Known(key)) if key == "k"));
}
