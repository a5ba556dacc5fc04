use std::fmt::Write;

use expect_test::{Expect, expect};
use serde_json::{Value as Json, json};
use tiller_agent::provider::{EventStream, Request};

use super::*;

/// The provider of [`demo`].
struct SilentProvider;

impl Provider for SilentProvider {
    fn stream(&self, _: Request) -> EventStream {
        Box::pin(futures_util::stream::empty())
    }
}

/// A model that needs no account.
fn demo() -> Model {
    serde_json::from_value(json!({"id": "demo", "name": "tiller demo", "api": "tiller",
        "provider": BUILTIN, "baseUrl": "", "reasoning": true, "input": ["text"],
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
        "contextWindow": 100_000, "maxTokens": 10_000}))
    .unwrap()
}

/// The models of a user with these variables and this `models.json`.
pub(super) fn models(variables: &[(&str, &str)], file: &Json, settings: &Settings) -> Models {
    let folder = tempfile::tempdir().unwrap();
    let files = ConfigFiles::in_folder(folder.path());
    std::fs::write(folder.path().join("models.json"), file.to_string()).unwrap();
    let pairs = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let mut diagnostics = Vec::new();
    let credentials = Credentials::load(&files, Arc::new(pairs.collect()), &mut diagnostics);
    let mut models = Models::new(credentials, settings, CacheRetention::Short);
    models.catalogue = Catalogue::unread();
    models.load(&files, &mut diagnostics);
    models.add_builtin(demo(), Arc::new(SilentProvider));
    assert_eq!(diagnostics, Vec::<String>::new());
    models
}

/// Two of the user's own providers that share a model id.
fn mocks() -> Json {
    let provider = |key: &str, models: Json| {
        json!({"api": "anthropic-messages", "baseUrl": "http://localhost", "apiKey": key,
            "models": models})
    };
    json!({"providers": {
        "mocka": provider("key", json!([
            {"id": "mock-1", "name": "First Mock", "reasoning": true},
            {"id": "mock-2"},
            {"id": "shared"},
            {"id": "dated-20250101"}, {"id": "dated-20260101"}, {"id": "mock:high"},
        ])),
        "mockb": provider("$NO_KEY", json!([{"id": "mock-1"}, {"id": "only/b"}, {"id": "openai/x"}])),
        "mockc": provider("key", json!([{"id": "shared"}, {"id": "dated"}])),
    }})
}

fn name(model: &Model) -> String {
    full_name(&model.provider, &model.id)
}

fn check(models: &Models, patterns: &[&str], expected: Expect) {
    let mut report = String::new();
    for pattern in patterns {
        let (provider, wanted) = match pattern.split_once(" at ") {
            Some((wanted, provider)) => (Some(provider), wanted),
            None => (None, *pattern),
        };
        let found = match models.resolve(provider, wanted) {
            Ok(Resolved { model, thinking, warning }) => {
                let thinking = thinking.map(|level| format!(", thinking {}", level.name()));
                let warning = warning.map(|warning| format!(" ({warning})"));
                let of = [Some(name(&model)), thinking, warning];
                of.into_iter().flatten().collect()
            }
            Err(why) => format!("! {why}"),
        };
        writeln!(report, "{pattern} → {found}").unwrap();
    }
    expected.assert_eq(&report);
}

#[test]
fn models_resolve_from_typed_patterns() {
    let models = models(&[], &mocks(), &Settings::default());
    check(
        &models,
        &[
            "mocka/mock-1",
            "MOCKA/Mock-1",
            "mock-2",
            "mock-2:high",
            "mock-2:max",
            "mocka/mock:high",
            "mock:high:low",
            "first mock",
            "dated-2",
            "dated",
            "mock-1",
            "shared",
            "only/b",
            "openai/x",
            "mock-1 at mockb",
            "mockb/mock-1 at mockb",
            "mocka/zzz",
            "mocka/zzz:high",
            "zzz at mocka",
            "zzz at zz",
            "zzz/zzz",
            "zzz",
            "tiller/demo",
            "tiller/zzz",
            "demo",
            "mocka/",
            "",
        ],
        expect![[r#"
            mocka/mock-1 → mocka/mock-1
            MOCKA/Mock-1 → mocka/mock-1
            mock-2 → mocka/mock-2
            mock-2:high → mocka/mock-2, thinking high
            mock-2:max → mocka/mock-2, thinking max
            mocka/mock:high → mocka/mock:high
            mock:high:low → mocka/mock:high, thinking low
            first mock → mocka/mock-1
            dated-2 → mocka/dated-20260101
            dated → mockc/dated
            mock-1 → mocka/mock-1
            shared → ! Model "shared" is ambiguous across providers: mocka/shared, mockc/shared. Several of them are authenticated. Use --provider or provider/model.
            only/b → mockb/only/b
            openai/x → mockb/openai/x
            mock-1 at mockb → mockb/mock-1
            mockb/mock-1 at mockb → mockb/mock-1
            mocka/zzz → mocka/zzz (Model "zzz" not found for provider "mocka". Using custom model id.)
            mocka/zzz:high → mocka/zzz, thinking high (Model "zzz" not found for provider "mocka". Using custom model id.)
            zzz at mocka → mocka/zzz (Model "zzz" not found for provider "mocka". Using custom model id.)
            zzz at zz → ! Unknown provider "zz". Use --list-models to see available providers/models.
            zzz/zzz → ! Model "zzz/zzz" not found. Use --list-models to see available models.
            zzz → ! Model "zzz" not found. Use --list-models to see available models.
            tiller/demo → tiller/demo
            tiller/zzz → ! Model "tiller/zzz" not found. Use --list-models to see available models.
            demo → tiller/demo
            mocka/ → ! Model "mocka/" not found. Use --list-models to see available models.
             → ! Model "" not found. Use --list-models to see available models.
        "#]],
    );
}

#[test]
fn catalogue_models_resolve_from_typed_patterns() {
    let one = models(&[("ANTHROPIC_API_KEY", "key")], &json!({}), &Settings::default());
    check(
        &one,
        &[
            "anthropic/claude-opus-4-8",
            "claude-opus-4-8",
            "opus",
            "sonnet:high",
            "haiku-4-5",
            "openai/gpt-4o",
            "gpt-4o-2024-05-13",
            "anthropic/claude-next",
        ],
        expect![[r#"
            anthropic/claude-opus-4-8 → anthropic/claude-opus-4-8
            claude-opus-4-8 → anthropic/claude-opus-4-8
            opus → anthropic/claude-opus-5-5
            sonnet:high → anthropic/claude-sonnet-5, thinking high
            haiku-4-5 → anthropic/claude-haiku-4-5
            openai/gpt-4o → openai/gpt-4o
            gpt-4o-2024-05-13 → ! Model "gpt-4o-2024-05-13" is ambiguous across providers: azure-openai-responses/gpt-4o-2024-05-13, openai/gpt-4o-2024-05-13. No matching provider is authenticated. Use --provider or provider/model.
            anthropic/claude-next → anthropic/claude-next (Model "claude-next" not found for provider "anthropic". Using custom model id.)
        "#]],
    );
}

#[test]
fn without_keys_the_maker_ranks_before_resellers() {
    let models = models(&[], &json!({}), &Settings::default());
    check(
        &models,
        &["opus", "sonnet", "gemini", "grok", "kimi", "tiller/script"],
        expect![[r#"
            opus → anthropic/claude-opus-5-5
            sonnet → anthropic/claude-sonnet-5
            gemini → google/gemini-flash-lite-latest
            grok → xai/grok-4.7
            kimi → moonshotai/kimi-k3
            tiller/script → ! tiller/script plays a conversation file: name it with --script FILE
        "#]],
    );
}

#[test]
fn patterns_select_models_to_cycle_through() {
    let settings = Settings::default();
    let check = |patterns: &[&str], expected: Expect| {
        let mut models = models(&[], &mocks(), &settings);
        let patterns: Vec<String> = patterns.iter().map(|&pattern| pattern.into()).collect();
        let mut report = Vec::new();
        models.set_scope(&patterns, &mut report);
        let (scope, is_scoped) = models.cycle();
        report.push(format!("scoped: {is_scoped}"));
        report.extend(scope.iter().map(|ScopedModel { model, thinking }| {
            format!("{} {}", name(model), thinking.map_or("-", ThinkingLevel::name))
        }));
        expected.assert_eq(&report.join("\n"));
    };
    check(
        &[],
        expect![[r#"
        scoped: false
        mocka/mock-1 -
        mocka/mock-2 -
        mocka/shared -
        mocka/dated-20250101 -
        mocka/dated-20260101 -
        mocka/mock:high -
        mockc/shared -
        mockc/dated -"#]],
    );
    check(
        &["mocka/*"],
        expect![[r#"
        scoped: true
        mocka/mock-1 -
        mocka/mock-2 -
        mocka/shared -
        mocka/dated-20250101 -
        mocka/dated-20260101 -
        mocka/mock:high -"#]],
    );
    check(
        &["shared", "mock-2:high", "MOCKC/*:low", "nothing*", "mockb/*", ""],
        expect![[r#"
            No models match pattern "nothing*"
            No models match pattern "mockb/*"
            scoped: true
            mocka/shared -
            mocka/mock-2 high
            mockc/shared low
            mockc/dated low"#]],
    );
    check(
        &["dated:high", "mock:high"],
        expect![[r#"
        scoped: true
        mockc/dated high
        mocka/mock:high -"#]],
    );
    check(
        &["tiller/*", "demo"],
        expect![[r#"
        No models match pattern "demo"
        scoped: true
        tiller/demo -"#]],
    );
}

#[test]
fn new_session_uses_the_default_model() {
    let wanted = |provider: Option<&str>, model: Option<&str>| Settings {
        default_provider: provider.map(str::to_owned),
        default_model: model.map(str::to_owned),
        ..Settings::default()
    };
    let keys = [("OPENROUTER_API_KEY", "key"), ("ANTHROPIC_API_KEY", "key")];
    let starts = |keys: &[(&str, &str)], file: &Json, settings: &Settings| {
        let model = models(keys, file, settings).default_model(settings);
        model.map_or("nothing".to_owned(), |model| name(&model))
    };
    let nothing = json!({});
    let report = [
        starts(&[], &nothing, &wanted(None, None)),
        starts(&keys, &nothing, &wanted(None, None)),
        starts(&[("MINIMAX_API_KEY", "key")], &nothing, &wanted(None, None)),
        starts(&keys, &mocks(), &wanted(Some("mocka"), Some("mock-2"))),
        starts(&keys, &mocks(), &wanted(Some("mocka"), None)),
        starts(&keys, &mocks(), &wanted(None, Some("mock-1"))),
        starts(&keys, &mocks(), &wanted(Some("nobody"), Some("nothing"))),
        starts(&[], &mocks(), &wanted(None, None)),
        // A default without a key counts: the prompt says what is missing.
        starts(&[], &nothing, &wanted(Some("anthropic"), Some("claude-opus-4-8"))),
    ];
    expect![[r#"
        nothing
        anthropic/claude-opus-4-8
        minimax/MiniMax-M3
        mocka/mock-2
        mocka/mock-1
        mocka/mock-1
        anthropic/claude-opus-4-8
        mocka/mock-1
        anthropic/claude-opus-4-8"#]]
    .assert_eq(&report.join("\n"));
}

#[test]
fn default_model_comes_from_the_scope() {
    let mut settings = Settings::default();
    let mut models = models(&[], &mocks(), &settings);
    models.set_scope(&["mockc/*".into(), "mocka/mock-2:low".into()], &mut Vec::new());
    let first = |settings: &Settings| name(&models.first_scoped(settings).unwrap().model);
    assert_eq!(first(&settings), "mockc/shared");
    settings.default_provider = Some("mocka".into());
    settings.default_model = Some("mock-2".into());
    assert_eq!(first(&settings), "mocka/mock-2");
    settings.default_model = Some("mock-1".into());
    assert_eq!(first(&settings), "mockc/shared");
}

#[test]
fn only_usable_models_are_listed() {
    let settings = Settings::default();
    let names = |variables: &[(&str, &str)], file: &Json| -> Vec<String> {
        models(variables, file, &settings).available().iter().map(|model| name(model)).collect()
    };
    assert_eq!(names(&[], &json!({})), ["tiller/demo"]);
    let mocks = names(&[], &mocks());
    assert_eq!(mocks.first().unwrap(), "mocka/mock-1");
    assert_eq!(mocks.last().unwrap(), "mockc/dated");
    assert_eq!(mocks.len(), 8);
    let all = names(&[("ANTHROPIC_API_KEY", "key")], &self::mocks());
    assert_eq!(all.first().unwrap(), "anthropic/claude-fable-5");
    assert_eq!(&all[all.len() - 8..], mocks);
    // An API that tiller does not implement.
    assert_eq!(names(&[("RADIUS_API_KEY", "key")], &json!({})), ["tiller/demo"]);
    // The address is not complete.
    let key = ("CLOUDFLARE_API_KEY", "key");
    assert_eq!(names(&[key], &json!({})), ["tiller/demo"]);
    let (account, gateway) = (("CLOUDFLARE_ACCOUNT_ID", "7"), ("CLOUDFLARE_GATEWAY_ID", "{g}"));
    let models = models(&[key, account, gateway], &json!({}), &settings);
    let model = models.usable("cloudflare-ai-gateway", "claude-opus-5").unwrap();
    assert_eq!(model.base_url, "https://gateway.ai.cloudflare.com/v1/7/g/anthropic");
}

#[test]
fn azure_variables_set_address_and_deployment() {
    let settings = Settings::default();
    let asked_for = |id: &str, variables: &[(&str, &str)], file: &Json| {
        let all: Vec<_> =
            [("AZURE_OPENAI_API_KEY", "key")].iter().chain(variables).copied().collect();
        let models = models(&all, file, &settings);
        let model = models.resolve(Some("azure-openai-responses"), id).unwrap().model;
        match models.check_access(&model) {
            Ok(()) => {
                let name =
                    model.compat.as_ref().and_then(|compat| compat.get("azureDeploymentName"));
                let name = name.map_or(String::new(), |name| format!(" as {name}"));
                format!("{}{name}\n", model.base_url)
            }
            Err(why) => format!("{why}\n"),
        }
    };
    let asked = |variables: &[(&str, &str)], file: &Json| asked_for("gpt-5.5", variables, file);
    let none = json!({});
    let base = ("AZURE_OPENAI_BASE_URL", "https://r.cognitiveservices.azure.com");
    let resource = ("AZURE_OPENAI_RESOURCE_NAME", "r");
    let version = |version| ("AZURE_OPENAI_API_VERSION", version);
    let map = ("AZURE_OPENAI_DEPLOYMENT_NAME_MAP", "gpt-5.5=ours,gpt-4=theirs");
    let own = json!({"providers": {"azure-openai-responses": {"baseUrl": "https://gateway/v1"}}});
    let described = json!({"providers": {"azure-openai-responses": {"models": [
        {"id": "gpt-5.5", "baseUrl": "https://gateway?api-version=1", "compat": {"azureDeploymentName": "x"}}]}}});
    let report = [
        asked(&[], &none),
        asked(&[base], &none),
        asked(&[resource], &none),
        asked(&[base, resource, version("v1"), map], &none),
        asked(&[resource, version("2025-04-01-preview")], &none),
        asked(&[resource, version("preview"), map], &own),
        asked(&[resource, version("preview"), map], &described),
        asked_for("gpt-next", &[resource, map], &none),
    ];
    expect![[r#"
        azure-openai-responses cannot be reached: set AZURE_OPENAI_BASE_URL or AZURE_OPENAI_RESOURCE_NAME in the environment
        https://r.cognitiveservices.azure.com
        https://r.openai.azure.com/openai/v1
        https://r.cognitiveservices.azure.com as "ours"
        https://r.openai.azure.com/openai/v1?api-version=2025-04-01-preview
        https://gateway/v1?api-version=preview as "ours"
        https://gateway?api-version=1 as "x"
        https://r.openai.azure.com/openai/v1
    "#]].assert_eq(&report.concat());
}

#[test]
fn models_json_overrides_the_catalogue() {
    let file = json!({"providers": {
        "anthropic": {
            "baseUrl": "http://proxy", "compat": {"supportsStrictTools": false, "extra": 1},
            "modelOverrides": {
                "claude-opus-5": {"name": "Mine", "contextWindow": 5, "cost": {"output": 1},
                    "thinkingLevelMap": {"minimal": null}, "compat": {"extra": 2}},
                "claude-opus-4-8": {"cost": {"tiers": [{"inputTokensAbove": 9, "input": 1,
                    "output": 2, "cacheRead": 3, "cacheWrite": 4}]}},
            },
            "models": [{"id": "claude-sonnet-5", "maxTokens": 7}, {"id": "claude-new"}],
        },
    }});
    let models = models(&[("ANTHROPIC_API_KEY", "key")], &file, &Settings::default());
    let names: Vec<_> = models.available().iter().map(|model| model.id.clone()).collect();
    assert_eq!(names.iter().filter(|id| *id == "claude-sonnet-5").count(), 1);
    assert_eq!(names.last().unwrap(), "claude-new");
    let opus = models.usable("anthropic", "claude-opus-5").unwrap();
    assert_eq!((&*opus.name, &*opus.base_url, opus.context_window), ("Mine", "http://proxy", 5));
    assert_eq!((opus.cost.input, opus.cost.output), (5.0, 1.0));
    let tiered = models.usable("anthropic", "claude-opus-4-8").unwrap();
    assert_eq!((tiered.cost.input, tiered.cost.tiers[0].output), (5.0, 2.0));
    assert_eq!(opus.compat.as_ref().unwrap()["extra"], 2);
    assert!(!opus.thinking_levels().contains(&ThinkingLevel::Minimal));
    assert!(opus.thinking_levels().contains(&ThinkingLevel::Xhigh));
    let replaced = models.usable("anthropic", "claude-sonnet-5").unwrap();
    assert_eq!((replaced.max_tokens, &*replaced.base_url), (7, "http://proxy"));
    let new = models.usable("anthropic", "claude-new").unwrap();
    assert_eq!((&*new.api, new.context_window), ("anthropic-messages", 128_000));
    let other = models.usable("anthropic", "claude-opus-4-8").unwrap();
    assert_eq!(other.compat.as_ref().unwrap()["extra"], 1);
    assert_eq!(models.resolve(None, "mine").unwrap().model.id, "claude-opus-5");
}

#[test]
fn starting_with_a_model_of_the_file_reads_no_catalogue() {
    let settings = Settings {
        default_provider: Some("mocka".into()),
        default_model: Some("mock-1".into()),
        ..Settings::default()
    };
    let models = models(&[], &mocks(), &settings);
    let model = models.default_model(&settings).unwrap();
    assert!(models.check_access(&model).is_ok());
    models.provider(&model);
    assert_eq!(models.available().len(), 8);
    assert!(!models.catalogue.was_read());
}

#[test]
fn check_access_names_what_is_missing() {
    let models = models(&[("CLOUDFLARE_API_KEY", "key")], &mocks(), &Settings::default());
    let check = |provider: &str, id: &str, expected: Expect| {
        let model = models.model(&models.find(provider, id).unwrap());
        expected.assert_eq(&models.check_access(&model).unwrap_err());
    };
    check(
        "anthropic",
        "claude-opus-4-8",
        expect![[r#"
            No API key found for anthropic.

            Set ANTHROPIC_API_KEY, store one with `tiller auth set anthropic`, or add an `apiKey` for `anthropic` in models.json in the agent folder."#]],
    );
    let codex = models.known_at(|provider| provider == "openai-codex").next().unwrap();
    check(
        "openai-codex",
        codex.id,
        expect![[r#"
            openai-codex cannot be used: tiller does not support its API, openai-codex-responses. Choose a model of another provider; `tiller --list-models` lists them."#]],
    );
    check(
        "mockb",
        "mock-1",
        expect![[r#"
        No API key found for mockb (in models.json: the variable NO_KEY is not set).

        Store one with `tiller auth set mockb`, or add an `apiKey` for `mockb` in models.json in the agent folder."#]],
    );
    check(
        "cloudflare-workers-ai",
        "@cf/moonshotai/kimi-k2.6",
        expect![
            "cloudflare-workers-ai cannot be reached: set CLOUDFLARE_ACCOUNT_ID in the environment"
        ],
    );
}

#[test]
fn models_are_listed_as_a_table() {
    let models = models(&[], &mocks(), &Settings::default());
    let list = |search: &str| {
        let list = models.list(search);
        format!("{}{}", list.table, list.note.unwrap_or("nothing more".into()))
    };
    expect![[r#"
        provider  model           context  max-out  thinking  images
        mocka     mock-1          128K     16.4K    yes       no
        mocka     dated-20250101  128K     16.4K    no        no
        mocka     dated-20260101  128K     16.4K    no        no
        More with a key (tiller auth set PROVIDER) for: mockb"#]]
    .assert_eq(&list("Mock 1"));
    expect![[r#"
        provider  model           context  max-out  thinking  images
        mocka     dated-20260101  128K     16.4K    no        no
        nothing more"#]]
    .assert_eq(&list("mkdat26"));
    expect![[r#"
        No models matching "minimax-m2.7-highspeed"
        More with a key (tiller auth set PROVIDER) for: minimax, minimax-cn, vercel-ai-gateway"#]]
    .assert_eq(&list("minimax-m2.7-highspeed"));
    expect![[r#"
        No models matching "no-such-model"
        nothing more"#]]
    .assert_eq(&list("no-such-model"));
}

#[test]
fn azure_goes_by_two_names() {
    let file = json!({"providers": {"azure": {"baseUrl": "https://x.openai.azure.com/openai/v1", "apiKey": "k"}}});
    let models = models(&[], &file, &Settings::default());
    let model = models.usable("azure", "gpt-5.4").unwrap();
    assert_eq!(model.provider, "azure-openai-responses");
    assert_eq!(model.base_url, "https://x.openai.azure.com/openai/v1");
    for pattern in ["azure/gpt-5.4", "azure-openai-responses/gpt-5.4"] {
        assert_eq!(models.resolve(None, pattern).unwrap().model.provider, model.provider);
    }
    let resolved = models.resolve(Some("azure"), "gpt-5.4").unwrap();
    assert_eq!(resolved.model.provider, model.provider);
}
