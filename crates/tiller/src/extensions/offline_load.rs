//! What extensions bring, for those who only want to know: `--list-models` and `--help`. They are
//! loaded for that alone, and find nobody whom they could ask for anything.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tiller_js::world::Action;
use tiller_js::{Extension, Extensions, LoadError, LoadReport, RegisteredFlag};
use tokio::sync::mpsc;

use super::host_api::ServerHostApi;
use super::provider::offer;
use crate::models::Models;
use crate::rpc::extensions::{ExtensionEnv, ExtensionInput};
use crate::rpc::server::{INPUTS_MAX, Input};

/// Takes up the models they bring. Gives what went wrong.
pub(crate) fn bring(
    models: &mut Models,
    extensions: &[Extension],
    around: ExtensionEnv,
    cwd: PathBuf,
) -> Result<Vec<String>, String> {
    let mut problems = Vec::new();
    let report = visit(extensions, around, cwd, |guests, wish| {
        problems.extend(take(models, guests, wish));
    })?;
    problems.extend(told(report.errors));
    Ok(problems)
}

/// The options they add, and what went wrong.
pub(crate) fn flags(
    extensions: &[Extension],
    around: ExtensionEnv,
    cwd: PathBuf,
) -> Result<(Vec<RegisteredFlag>, Vec<String>), String> {
    let report = visit(extensions, around, cwd, |_, _| ())?;
    Ok((report.registrations.flags, told(report.errors).collect()))
}

fn told(errors: Vec<LoadError>) -> impl Iterator<Item = String> {
    let told = |it: LoadError| format!("Failed to load extension \"{}\": {}", it.path, it.error);
    errors.into_iter().map(told)
}

fn visit(
    extensions: &[Extension],
    around: ExtensionEnv,
    cwd: PathBuf,
    hear: impl FnMut(&Extensions, ExtensionInput),
) -> Result<LoadReport, String> {
    tiller_tools::process::install();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|err| format!("cannot start the runtime: {err}"))?;
    let report = runtime.block_on(load(extensions, around, cwd, hear));
    runtime.shutdown_background();
    Ok(report)
}

async fn load(
    extensions: &[Extension],
    around: ExtensionEnv,
    cwd: PathBuf,
    mut hear: impl FnMut(&Extensions, ExtensionInput),
) -> LoadReport {
    let (inputs, mut said) = mpsc::channel(INPUTS_MAX);
    let guests = Extensions::new(around.config(cwd), Arc::new(ServerHostApi { inputs }));
    let loading = async {
        let report = guests.load(extensions).await;
        guests.bind().await;
        report
    };
    tokio::pin!(loading);
    // Whoever is not answered learns that nobody is there.
    let mut take = |input| {
        if let Input::Extension(wish) = input {
            hear(&guests, *wish);
        }
    };
    let report = loop {
        tokio::select! {
            biased;
            Some(input) = said.recv() => take(input),
            report = &mut loading => break report,
        }
    };
    while let Ok(input) = said.try_recv() {
        take(input);
    }
    guests.stop();
    report
}

fn take(models: &mut Models, guests: &Extensions, wish: ExtensionInput) -> Vec<String> {
    match wish {
        ExtensionInput::Act(Action::RegisterProvider { name, config }) => {
            // Nobody is asked for an answer here.
            let offer = offer(guests.clone(), &name, config, Duration::ZERO);
            let problems =
                models.add_extension_provider(&name, offer).unwrap_or_else(|problem| vec![problem]);
            problems.iter().map(|problem| format!("Provider {name}: {problem}")).collect()
        }
        ExtensionInput::Act(Action::UnregisterProvider { name }) => {
            models.remove_extension_provider(&name);
            Vec::new()
        }
        ExtensionInput::Report(error) => {
            vec![format!("extension {}, {}: {}", error.extension_path, error.event, error.error)]
        }
        _ => Vec::new(),
    }
}
