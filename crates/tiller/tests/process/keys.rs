//! Keys: stored, listed and used, and never printed.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;
use std::sync::{Arc, Mutex};
use std::thread;

use expect_test::expect;
use serde_json::{Value, json};

use super::client::{Client, Place, finish};

/// A server that refuses every request, and quotes it in the error.
struct EchoingServer {
    url: String,
    received: Arc<Mutex<String>>,
}

impl EchoingServer {
    fn start() -> EchoingServer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let received = Arc::new(Mutex::new(String::new()));
        let ears = received.clone();
        // It lives as long as the test.
        thread::spawn(move || {
            for caller in listener.incoming().map_while(Result::ok) {
                let request = answer(caller);
                ears.lock().unwrap().push_str(&request);
            }
        });
        EchoingServer { url, received }
    }

    fn received(&self) -> String {
        self.received.lock().unwrap().clone()
    }
}

fn answer(mut caller: TcpStream) -> String {
    let mut reader = BufReader::new(caller.try_clone().unwrap());
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap() <= 2 {
            break;
        }
        if let Some(number) = line.to_lowercase().strip_prefix("content-length:") {
            length = number.trim().parse().unwrap();
        }
        head += &line;
    }
    reader.read_exact(&mut vec![0; length]).unwrap();
    let reported =
        json!({"type": "error", "error": {"type": "authentication_error", "message": head}});
    let reported = reported.to_string();
    let head = "HTTP/1.1 401 Unauthorized\r\ncontent-type: application/json\r\nconnection: close";
    // The client may have disconnected.
    write!(caller, "{head}\r\ncontent-length: {}\r\n\r\n{reported}", reported.len()).ok();
    head.to_owned() + &reported
}

/// Writes a file of the user's agent folder.
fn agent(place: &Place, name: &str, content: &Value) {
    let folder = place.path().join(".pi/agent");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(name), content.to_string()).unwrap();
    fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o600)).unwrap();
}

fn text(Output { stdout, stderr, .. }: Output) -> String {
    String::from_utf8(stdout).unwrap() + &String::from_utf8(stderr).unwrap()
}

/// All files in the folder except the user's own.
fn files(folder: &Path, all: &mut String) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let name = entry.file_name();
        if entry.file_type().unwrap().is_dir() {
            files(&entry.path(), all);
        } else if name != "auth.json" && name != "models.json" && name != "credentials" {
            all.push_str(&String::from_utf8_lossy(&fs::read(entry.path()).unwrap()));
        }
    }
}

#[test]
fn secret_reaches_only_its_provider() {
    let gossip = EchoingServer::start();
    let place = Place::new();
    let model = json!([{"id": "m"}]);
    let own = |more: Value| {
        let mut provider = json!({
            "api": "anthropic-messages", "baseUrl": gossip.url, "models": model,
        });
        provider.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        provider
    };
    agent(
        &place,
        "auth.json",
        &json!({
            "stored": {"type": "api_key", "key": "sk-secret-stored"},
            "printed": {"type": "api_key", "key": "!printf 'sk-sec%s-printed' ret"},
            "signed": {"type": "oauth", "access": "sk-ant-oat-secret-signed", "refresh": "rt-secret",
                "expires": 32_503_680_000_000u64},
        }),
    );
    agent(
        &place,
        "models.json",
        &json!({"providers": {
            "stored": own(json!({})),
            "printed": own(json!({})),
            "signed": own(json!({})),
            "described": own(json!({"apiKey": "$HIDDEN", "authHeader": true})),
            "headed": own(json!({"apiKey": "sk-secret-headed",
                "headers": {"x-team": "!printf 'sec%s-team' ret"}})),
            "anthropic": {"baseUrl": gossip.url},
            "amazon-bedrock": {"baseUrl": gossip.url},
        }}),
    );
    let amazon = place.path().join(".aws");
    fs::create_dir(&amazon).unwrap();
    let process = r#"printf '{"AccessKeyId":"AKPROCESS","SecretAccessKey":"never-sec%s",'"#;
    let process = format!(r#"{process}'"SessionToken":"sk-sec%s-process"}}' ret ret"#);
    let profiles = format!("[p]\ncredential_process = {process}\n");
    fs::write(amazon.join("credentials"), profiles).unwrap();
    let keys = [("AWS_ACCESS_KEY_ID", "AKKEYS"), ("AWS_SECRET_ACCESS_KEY", "never-secret")];
    let session = ("AWS_SESSION_TOKEN", "sk-secret-session");
    let variables: HashMap<&str, Vec<(&str, &str)>> = HashMap::from([
        ("signing", vec![keys[0], keys[1], session]),
        ("profile", vec![("AWS_PROFILE", "p")]),
        ("bearer", vec![("AWS_BEARER_TOKEN_BEDROCK", "sk-secret-bearer")]),
    ]);
    let names = ["stored", "printed", "signed", "described", "headed", "anthropic", "given"];
    let names = names.into_iter().chain(["signing", "profile", "bearer"]);
    let mut said = String::new();
    for name in names {
        let full_name = match name {
            "signing" | "profile" | "bearer" => {
                "amazon-bedrock/anthropic.claude-opus-4-8".to_owned()
            }
            "anthropic" => "anthropic/claude-opus-4-8".to_owned(),
            "given" => "stored/m".to_owned(),
            own => format!("{own}/m"),
        };
        let mut arguments = vec!["--mode", "rpc", "--on-eof", "finish", "--model", &full_name];
        if name == "given" {
            arguments.extend(["--api-key", "sk-secret-given"]);
        }
        let mut command = place.command(&arguments);
        command.env("HIDDEN", "sk-secret-described");
        command.env("ANTHROPIC_API_KEY", "sk-secret-environment");
        command.envs(variables.get(name).into_iter().flatten().copied());
        let commands = [
            json!({"type": "prompt", "message": "Hello"}),
            json!({"type": "hello"}),
            json!({"type": "get_available_models"}),
            json!({"type": "get_state"}),
            json!({"type": "export_html"}),
        ];
        let commands: String = commands.iter().map(|command| format!("{command}\n")).collect();
        let output = text(finish(command, &commands));
        assert!(output.contains("[redacted]"), "{name}: {output}");
        said += &output;
    }
    for arguments in [["auth", "list"], ["--list-models", "/m"]] {
        let mut command = place.command(&arguments);
        command.envs(variables["signing"].iter().copied());
        command.env("HIDDEN", "sk-secret-described");
        command.env("ANTHROPIC_API_KEY", "sk-secret-environment");
        said += &text(finish(command, ""));
    }
    files(place.path(), &mut said);
    let received = gossip.received();
    for end in ["stored", "printed", "described", "headed", "environment", "given"] {
        assert!(received.contains(&format!("sk-secret-{end}")), "{end}: {received}");
    }
    assert!(received.contains("Bearer sk-secret-described") && received.contains("secret-team"));
    assert!(received.contains("sk-ant-oat-secret-signed") && !received.contains("rt-secret"));
    for end in ["session", "process", "bearer"] {
        assert!(received.contains(&format!("sk-secret-{end}")), "{end}: {received}");
    }
    // Requests are signed with these; they are never sent.
    assert!(received.contains("AKKEYS") && received.contains("AKPROCESS"), "{received}");
    assert!(!received.contains("never-secret"), "{received}");
    let leak = said.find("secret").map(|at| &said[at.saturating_sub(200)..at + 40]);
    assert_eq!(leak, None);
}

#[test]
fn key_stored_while_running_is_used() {
    let gossip = EchoingServer::start();
    let place = Place::new();
    agent(&place, "models.json", &json!({"providers": {"anthropic": {"baseUrl": gossip.url}}}));
    let arguments = ["--mode", "rpc", "--no-session", "--model", "anthropic/claude-opus-4-8"];
    let mut client = Client::start(place.command(&arguments), place.clone());
    client.say(&json!({"id": "1", "type": "prompt", "message": "Hello"}));
    let refused = client.response("1")["error"].as_str().unwrap().to_owned();
    assert!(refused.starts_with("No API key found for anthropic.\n\nSet ANTHROPIC_API_KEY"));
    let stored = place.output(&["auth", "set", "anthropic"], "sk-secret-later\nmore\n");
    assert!(stored.status.success() && !text(stored).contains("secret"));
    client.say(&json!({"id": "2", "type": "prompt", "message": "Hello"}));
    assert_eq!(client.response("2")["success"], true);
    client.until_type("agent_settled");
    assert!(gossip.received().contains("sk-secret-later"));
    client.close_stdin();
    assert_eq!(client.end().1, Some(0));
}

#[test]
fn keys_are_set_listed_and_removed() {
    let place = Place::new();
    let path = place.path().join(".pi/agent/auth.json");
    let auth = |arguments: &[&str], stdin: &str| {
        let all: Vec<&str> = ["auth"].iter().chain(arguments).copied().collect();
        let mut command = place.command(&all);
        command.env("GROQ_API_KEY", "sk-secret-1");
        let output = finish(command, stdin);
        let code = output.status.code().unwrap();
        let home = place.path().display().to_string();
        format!("{}exit {code}\n", text(output).replace(&home, "~"))
    };
    let mut report = String::new();
    report += &auth(&["list"], "");
    report += &auth(&["set", "anthropic"], "sk-secret-2\n");
    report += &auth(&["set", "openai"], "$NOT_SET");
    report += &auth(&["set", "xai"], "  \n");
    report += &auth(&["set", "opneai"], "sk-secret-3\n");
    report += &auth(&["set", "--yes", "opneai"], "sk-secret-3\n");
    report += &auth(&["remove", "opneai"], "");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    report += &auth(&["list"], "");
    report += &auth(&["remove", "anthropic"], "");
    report += &auth(&["remove", "anthropic"], "");
    report += &auth(&["list"], "");
    assert!(!report.contains("secret"));
    expect![[r#"
        groq  environment (GROQ_API_KEY)
        exit 0
        Stored the key for anthropic in ~/.pi/agent/auth.json
        exit 0
        Stored the key for openai in ~/.pi/agent/auth.json
        exit 0
        Error: no key was given; nothing was stored
        exit 1
        Error: Unknown provider: opneai (did you mean openai?); nothing was stored. Use --yes to store it anyway
        exit 1
        Stored the key for opneai in ~/.pi/agent/auth.json
        exit 0
        Removed the key for opneai from ~/.pi/agent/auth.json
        exit 0
        anthropic  auth.json
        groq       environment (GROQ_API_KEY)
        openai     cannot be used: in auth.json: the variable NOT_SET is not set
        exit 0
        Removed the key for anthropic from ~/.pi/agent/auth.json
        exit 0
        Error: there is no key for anthropic in ~/.pi/agent/auth.json
        exit 1
        groq    environment (GROQ_API_KEY)
        openai  cannot be used: in auth.json: the variable NOT_SET is not set
        exit 0
    "#]]
    .assert_eq(&report);
}

#[test]
fn cycle_model_uses_the_scope() {
    let place = Place::new();
    let models = json!([
        {"id": "a", "reasoning": true}, {"id": "b", "reasoning": true}, {"id": "c"},
        {"id": "d", "reasoning": true},
    ]);
    let provider = json!({"api": "anthropic-messages", "baseUrl": "http://127.0.0.1:1",
        "apiKey": "key", "models": models});
    agent(&place, "models.json", &json!({"providers": {"p": provider}}));
    agent(
        &place,
        "settings.json",
        &json!({"enabledModels": ["p/*"], "modelThinkingLevels": {"p/d": "minimal"},
            "defaultThinkingLevel": "low"}),
    );
    let arguments = ["--mode", "rpc", "--no-session", "--models", "b:high,p/[cad],zzz"];
    let mut client = Client::start(place.command(&arguments), place.clone());
    let mut report = String::new();
    let mut ask = |command: Value| {
        let mut command = command;
        command["id"] = "1".into();
        client.say(&command);
        let data = client.response("1")["data"].take();
        report += &format!(
            "{} {} {}\n",
            data["model"]["id"].as_str().or(data["id"].as_str()).unwrap_or("-"),
            data["thinkingLevel"].as_str().unwrap_or("-"),
            data["isScoped"]
        );
    };
    ask(json!({"type": "get_state"}));
    for _ in 0..4 {
        ask(json!({"type": "cycle_model"}));
    }
    ask(json!({"type": "set_thinking_level", "level": "medium"}));
    ask(json!({"type": "cycle_model"}));
    ask(json!({"type": "set_model", "provider": "p", "modelId": "d"}));
    ask(json!({"type": "get_state"}));
    expect![[r#"
        b high null
        a high true
        c off true
        d minimal true
        b high true
        - - null
        a medium true
        d - null
        d minimal null
    "#]]
    .assert_eq(&report);
}

#[test]
fn list_models_prints_usable_models() {
    let place = Place::new();
    let mut command = place.command(&["--list-models", "opus-4-8"]);
    command.env("ANTHROPIC_API_KEY", "key");
    let Output { stdout, status, .. } = finish(command, "");
    assert!(status.success());
    expect![[r#"
        provider   model            context  max-out  thinking  images
        anthropic  claude-opus-4-8  1M       128K     yes       yes
    "#]]
    .assert_eq(&String::from_utf8(stdout).unwrap());
    let unknown = place.output(&["--mode", "rpc", "--model", "zzz"], "");
    expect![[r#"
        Error: Model "zzz" not found. Use --list-models to see available models.
    "#]]
    .assert_eq(&text(unknown));
    let custom = place.output(&["--mode", "rpc", "--model", "anthropic/zzz"], "");
    expect![[r#"
        Warning: Model "zzz" not found for provider "anthropic". Using custom model id.
    "#]]
    .assert_eq(&text(custom));
}

#[test]
fn password_in_a_url_reaches_only_its_server() {
    let gossip = EchoingServer::start();
    let place = Place::new();
    let url = gossip.url.replace("http://", "http://me:never-aloud@");
    agent(
        &place,
        "models.json",
        &json!({"providers": {"local": {
            "api": "anthropic-messages", "baseUrl": url, "apiKey": "some-key", "models": [{"id": "m"}],
        }}}),
    );
    let arguments = ["--mode", "rpc", "--on-eof", "finish", "--model", "local/m"];
    // One server that exists, and one that does not.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut said = String::new();
    for address in [url, format!("http://me:never-aloud@{silent}")] {
        let models = place.path().join(".pi/agent/models.json");
        let mut described: Value = serde_json::from_slice(&fs::read(&models).unwrap()).unwrap();
        described["providers"]["local"]["baseUrl"] = json!(address);
        fs::write(&models, described.to_string()).unwrap();
        let commands = [
            json!({"type": "set_auto_retry", "enabled": false}),
            json!({"type": "prompt", "message": format!("What is {address}?")}),
            json!({"type": "set_model", "provider": "local", "modelId": "m"}),
            json!({"type": "get_available_models"}),
            json!({"type": "get_state"}),
        ];
        let commands: String = commands.iter().map(|command| format!("{command}\n")).collect();
        let output = text(finish(place.command(&arguments), &commands));
        assert!(output.contains("http://me:***@127.0.0.1"), "{output}");
        // The user's own text stays as it is, but not in the page.
        said += &output.replace(&format!("What is {address}?"), "");
        let session = fs::read_dir(place.path().join(".pi/agent/sessions")).unwrap();
        let session = session.map(|folder| fs::read_dir(folder.unwrap().path()).unwrap());
        for file in session.flatten().map(|file| file.unwrap().path()) {
            said += &fs::read_to_string(&file).unwrap().replace(&format!("What is {address}?"), "");
            let exported = place.output(&["--export", file.to_str().unwrap(), "page.html"], "");
            assert!(exported.status.success());
            let page = fs::read_to_string(place.path().join("page.html")).unwrap();
            assert!(page.contains("[redacted]"));
            said += &page;
            fs::remove_file(file).unwrap();
        }
    }
    // "me:never-aloud" in base64.
    let encoded = "bWU6bmV2ZXItYWxvdWQ=";
    assert!(gossip.received().contains(encoded), "{}", gossip.received());
    for secret in ["never-aloud", encoded] {
        let leak = said.find(secret).map(|at| &said[at.saturating_sub(200)..at + 40]);
        assert_eq!(leak, None);
    }
}

#[test]
fn typed_key_is_removed_from_the_process_title() {
    for typed in [&["--api-key", "sk-visible-1"][..], &["--api-key=sk-visible-1"]] {
        let place = Place::new();
        let mut arguments = vec!["--mode", "rpc", "--no-session", "--provider", "anthropic"];
        arguments.extend(typed);
        arguments.extend(["--model", "claude-opus-4-8"]);
        let mut client = Client::start(place.command(&arguments), place);
        client.say(&json!({"id": "1", "type": "get_state"}));
        assert_eq!(client.response("1")["data"]["model"]["provider"], "anthropic");
        let title = fs::read_to_string(format!("/proc/{}/cmdline", client.id())).unwrap();
        assert!(title.contains("--api-key"), "{title}");
        assert!(title.ends_with("--model\0claude-opus-4-8\0"), "{title}");
        assert!(!title.contains("visible"), "{title}");
    }
}

#[test]
fn key_is_read_from_a_file_or_stdin() {
    let gossip = EchoingServer::start();
    let place = Place::new().with("key", "sk-of-file\nmore\n");
    agent(
        &place,
        "models.json",
        &json!({"providers": {"local": {
            "api": "anthropic-messages", "baseUrl": gossip.url, "models": [{"id": "m"}],
        }}}),
    );
    let model = ["--no-session", "--provider", "local", "--model", "local/m"];
    let run = |more: &[&str], stdin: &str| text(place.output(&[&model[..], more].concat(), stdin));
    run(&["-p", "--api-key-file", "key", "Hello"], "");
    assert!(gossip.received().contains("sk-of-file"), "{}", gossip.received());
    run(&["-p", "--api-key", "-"], "sk-of-stdin\nThis is the message\n");
    assert!(gossip.received().contains("sk-of-stdin"), "{}", gossip.received());
    for (arguments, stdin, why) in [
        (
            &["--mode", "rpc", "--api-key", "-"][..],
            "sk-1\n",
            "Error: --api-key - reads the key from stdin, which carries the commands in RPC mode: \
             use --api-key-file FILE\n",
        ),
        (
            &["-p", "--api-key", "-", "Hello"],
            "",
            "Error: --api-key -: there is no key in the first line of stdin\n",
        ),
        (
            &["-p", "--api-key", "a", "--api-key-file", "key", "Hello"],
            "",
            "Error: --api-key and --api-key-file cannot be used together\n",
        ),
        (
            &["-p", "--api-key-file", "none", "Hello"],
            "",
            "Error: --api-key-file none: No such file or directory (os error 2)\n",
        ),
    ] {
        assert_eq!(run(arguments, stdin), why);
    }
}

#[test]
fn broken_models_file_is_reported_before_a_model_is_not_found() {
    let place = Place::new();
    let folder = place.path().join(".pi/agent");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("models.json"), "{\"providers\": {\"mine\": ").unwrap();
    let output = place.output(&["-p", "--no-session", "--model", "mine/m", "Hi"], "");
    let said = text(output).replace(&place.path().display().to_string(), "~");
    let (warning, error) = said.split_once('\n').unwrap();
    assert!(warning.starts_with("Warning: ") && warning.contains("models.json"), "{said}");
    let expected =
        "Error: Model \"mine/m\" not found. Use --list-models to see available models.\n";
    assert_eq!(error, expected);
}

#[test]
fn scripted_model_without_a_script_says_what_is_missing() {
    let output = Place::new().output(&["-p", "--model", "tiller/script", "Hi"], "");
    let expected = "Error: tiller/script plays a conversation file: name it with --script FILE\n";
    assert_eq!(text(output), expected);
}

#[test]
fn failing_key_command_is_named_without_its_arguments() {
    let place = Place::new();
    let provider = json!({"api": "anthropic-messages", "baseUrl": "http://127.0.0.1:1",
        "models": [{"id": "m"}]});
    agent(&place, "models.json", &json!({"providers": {"p": provider}}));
    agent(
        &place,
        "auth.json",
        &json!({"p": {"type": "api_key", "key": "!no-such-vault read sk-secret"}}),
    );
    let output = place.output(&["-p", "--no-session", "--model", "p/m", "Hi"], "");
    let expected =
        "No API key for p: the command `no-such-vault …` was not found (exit code 127)\n";
    assert_eq!(text(output), expected);
}

#[test]
fn expired_sign_in_says_how_to_renew_it() {
    let place = Place::new();
    agent(
        &place,
        "auth.json",
        &json!({"anthropic": {"type": "oauth", "access": "a", "refresh": "r", "expires": 1000}}),
    );
    let arguments = ["-p", "--no-session", "--model", "anthropic/claude-opus-4-8", "Hi"];
    let said = text(place.output(&arguments, ""));
    let expected = "No API key found for anthropic (the sign-in in auth.json expired \
                    1970-01-01T00:00:01.000Z. Sign in again with the program that wrote it to \
                    auth.json (in pi: `/login`)).";
    assert!(said.starts_with(expected), "{said}");
}

/// The variables a client's command sees, with these settings of the user and the project.
fn seen_by_commands(user: &str, project: &str, arguments: &[&str]) -> String {
    seen_with_models("{}", user, project, arguments)
}

/// The same with this `models.json`.
fn seen_with_models(models: &str, user: &str, project: &str, arguments: &[&str]) -> String {
    let script = "call bash {\"command\": \"echo tool $OPENAI_API_KEY $CORP\"}\nsay Done.\n";
    let place = Place::new().with("talk.script", script);
    fs::create_dir_all(place.path().join(".pi/agent")).unwrap();
    let place = place.with(".pi/agent/settings.json", user).with(".pi/settings.json", project);
    let place = place.with(".pi/agent/models.json", models);
    let mut all = vec!["--mode", "rpc", "--no-session", "--script", "talk.script"];
    all.extend(arguments);
    let mut command = place.command(&all);
    command.env("OPENAI_API_KEY", "sk-open").env("AWS_SECRET_ACCESS_KEY", "aws-secret");
    command.env("CORP", "sk-corp").env("EDITOR", "ed");
    let mut client = Client::start(command, place);
    let bash = "echo $OPENAI_API_KEY,$AWS_SECRET_ACCESS_KEY,$CORP,$EDITOR";
    client.say(&json!({"id": "1", "type": "bash", "command": bash}));
    let answer = client.until_type("response").pop().unwrap();
    let mut seen = answer["data"]["output"].as_str().unwrap().to_owned();
    client.say(&json!({"id": "2", "type": "prompt", "message": "Go."}));
    for record in client.until_type("agent_settled") {
        if record["type"] == "tool_execution_end" {
            seen += record["result"]["content"][0]["text"].as_str().unwrap();
        }
    }
    client.close_stdin();
    seen
}

#[test]
fn commands_do_not_see_provider_keys_unless_settings_pass_them() {
    let passes = r#"{"tools": {"passEnv": ["OPENAI_*"]}}"#;
    assert_eq!(seen_by_commands("{}", "{}", &[]), ",,sk-corp,ed\ntool sk-corp\n");
    assert_eq!(seen_by_commands(passes, "{}", &[]), "sk-open,,sk-corp,ed\ntool sk-open sk-corp\n");
    // An untrusted project cannot decide this.
    assert_eq!(seen_by_commands("{}", passes, &["--no-approve"]), ",,sk-corp,ed\ntool sk-corp\n");
    let trusted = seen_by_commands("{}", passes, &["--approve"]);
    assert_eq!(trusted, "sk-open,,sk-corp,ed\ntool sk-open sk-corp\n");
    // A value given as a key is one, whatever its variable is called.
    let given = ["--provider", "openai", "--api-key", "sk-corp"];
    assert_eq!(seen_by_commands("{}", "{}", &given), ",,,ed\ntool\n");
    // And so is what a provider in models.json is given for one.
    let models = r#"{"providers": {"corp": {"baseUrl": "http://127.0.0.1:1/v1", "apiKey": "${CORP}",
        "api": "openai-completions", "models": [{"id": "m"}]}}}"#;
    assert_eq!(seen_with_models(models, "{}", "{}", &[]), ",,,ed\ntool\n");
    // In auth.json, too. The variable is not empty but absent.
    let keys = r#"{"corp": {"type": "api_key", "key": "$CORP"}}"#;
    let script =
        "call bash {\"command\": \"echo ${CORP-absent} ${OPENAI_API_KEY-absent}\"}\nsay Done.\n";
    let place = Place::new().with("talk.script", script);
    fs::create_dir_all(place.path().join(".pi/agent")).unwrap();
    let place = place.with(".pi/agent/auth.json", keys);
    let arguments = ["--mode", "json", "--no-session", "--script", "talk.script", "Go."];
    let mut command = place.command(&arguments);
    command.env("CORP", "sk-corp").env("OPENAI_API_KEY", "sk-open");
    let records = text(finish(command, ""));
    assert!(records.contains("absent absent"), "{records}");
    let passes = r#"{"tools": {"passEnv": ["CORP"]}}"#;
    assert_eq!(seen_with_models(models, passes, "{}", &[]), ",,sk-corp,ed\ntool sk-corp\n");
}
