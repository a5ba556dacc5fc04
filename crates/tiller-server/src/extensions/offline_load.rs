//! Loads extensions for `--list-models` and `--help`, without a server: requests of extensions
//! fail.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tiller_config::models::Models;
use tiller_js::host_api::Action;
use tiller_js::{Extension, Extensions, LoadError, LoadReport, RegisteredFlag};
use tokio::sync::mpsc;

use super::host_api::ServerHostApi;
use super::provider::registration;
use crate::extensions::{ExtensionEnv, ExtensionRequest};
use crate::server::{INPUTS_MAX, Input};

/// Adds the models that extensions register. Returns the problems.
pub fn add_models(
    models: &mut Models,
    extensions: &[Extension],
    env: ExtensionEnv,
    cwd: PathBuf,
) -> Result<Vec<String>, String> {
    let mut problems = Vec::new();
    let report = load_offline(extensions, env, cwd, |host, request| {
        problems.extend(handle(models, host, request));
    })?;
    problems.extend(error_texts(report.errors));
    Ok(problems)
}

/// The options that extensions register, and the problems.
pub fn flags(
    extensions: &[Extension],
    env: ExtensionEnv,
    cwd: PathBuf,
) -> Result<(Vec<RegisteredFlag>, Vec<String>), String> {
    let report = load_offline(extensions, env, cwd, |_, _| ())?;
    Ok((report.registrations.flags, error_texts(report.errors).collect()))
}

fn error_texts(errors: Vec<LoadError>) -> impl Iterator<Item = String> {
    let load_error =
        |it: LoadError| format!("Failed to load extension \"{}\": {}", it.path, it.error);
    errors.into_iter().map(load_error)
}

fn load_offline(
    extensions: &[Extension],
    env: ExtensionEnv,
    cwd: PathBuf,
    handle_input: impl FnMut(&Extensions, ExtensionRequest),
) -> Result<LoadReport, String> {
    tiller_tools::process::install();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|err| format!("cannot start the runtime: {err}"))?;
    let report = runtime.block_on(load(extensions, env, cwd, handle_input));
    runtime.shutdown_background();
    Ok(report)
}

async fn load(
    extensions: &[Extension],
    env: ExtensionEnv,
    cwd: PathBuf,
    mut handle_input: impl FnMut(&Extensions, ExtensionRequest),
) -> LoadReport {
    let (inputs, mut received) = mpsc::channel(INPUTS_MAX);
    let host = Extensions::new(env.config(cwd), Arc::new(ServerHostApi { inputs }));
    let loading = async {
        let report = host.load(extensions).await;
        host.bind().await;
        report
    };
    tokio::pin!(loading);
    // Dropping a request's responder fails the request.
    let mut forward = |input| {
        if let Input::ExtensionRequest(request) = input {
            handle_input(&host, *request);
        }
    };
    let report = loop {
        tokio::select! {
            biased;
            Some(input) = received.recv() => forward(input),
            report = &mut loading => break report,
        }
    };
    while let Ok(input) = received.try_recv() {
        forward(input);
    }
    host.stop();
    report
}

fn handle(models: &mut Models, host: &Extensions, request: ExtensionRequest) -> Vec<String> {
    match request {
        ExtensionRequest::Act(Action::RegisterProvider { name, config }) => {
            // No request is answered here, so the timeout is irrelevant.
            let registration_value = registration(host.clone(), &name, config, Duration::ZERO);
            let problems = models
                .add_extension_provider(&name, registration_value)
                .unwrap_or_else(|problem| vec![problem]);
            problems.iter().map(|problem| format!("Provider {name}: {problem}")).collect()
        }
        ExtensionRequest::Act(Action::UnregisterProvider { name }) => {
            models.remove_extension_provider(&name);
            Vec::new()
        }
        ExtensionRequest::Report(error) => {
            vec![format!("extension {}, {}: {}", error.extension_path, error.event, error.error)]
        }
        _ => Vec::new(),
    }
}
