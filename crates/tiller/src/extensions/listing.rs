//! `--list-models` where extensions bring some: they are loaded for that alone, and find nobody
//! whom they could ask for anything else.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tiller_js::world::Action;
use tiller_js::{Extension, Guests};
use tokio::sync::mpsc;

use super::provider::offer;
use super::world::Outside;
use crate::models::Models;
use crate::rpc::guests::{Around, Wish};
use crate::rpc::server::{INPUTS_MAX, Input};

/// Takes up what they bring. Gives what went wrong.
pub(crate) fn bring(
    models: &mut Models,
    extensions: &[Extension],
    around: Around,
    cwd: PathBuf,
) -> Result<Vec<String>, String> {
    tiller_tools::process::install();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|err| format!("cannot start the runtime: {err}"))?;
    let problems = runtime.block_on(load(models, extensions, around, cwd));
    runtime.shutdown_background();
    Ok(problems)
}

async fn load(
    models: &mut Models,
    extensions: &[Extension],
    around: Around,
    cwd: PathBuf,
) -> Vec<String> {
    let (inputs, mut said) = mpsc::channel(INPUTS_MAX);
    let guests = Guests::new(around.config(cwd), Arc::new(Outside { inputs }));
    let loading = async {
        let errors = guests.load(extensions).await.errors;
        guests.bind().await;
        errors
    };
    tokio::pin!(loading);
    let mut problems = Vec::new();
    let mut hear = |input| problems.extend(take(models, &guests, input));
    let errors = loop {
        tokio::select! {
            biased;
            Some(input) = said.recv() => hear(input),
            errors = &mut loading => break errors,
        }
    };
    while let Ok(input) = said.try_recv() {
        hear(input);
    }
    guests.stop();
    let failed = errors.into_iter();
    problems
        .extend(failed.map(|it| format!("Failed to load extension \"{}\": {}", it.path, it.error)));
    problems
}

/// Whoever is not answered learns that nobody is there.
fn take(models: &mut Models, guests: &Guests, input: Input) -> Vec<String> {
    let Input::Guest(wish) = input else { return Vec::new() };
    match *wish {
        Wish::Act(Action::RegisterProvider { name, config }) => {
            // Nobody is asked for an answer here.
            let offer = offer(guests.clone(), &name, config, Duration::ZERO);
            let problems = models.bring(&name, offer).unwrap_or_else(|problem| vec![problem]);
            problems.iter().map(|problem| format!("Provider {name}: {problem}")).collect()
        }
        Wish::Act(Action::UnregisterProvider { name }) => {
            models.forget(&name);
            Vec::new()
        }
        Wish::Report(error) => {
            vec![format!("extension {}, {}: {}", error.extension_path, error.event, error.error)]
        }
        _ => Vec::new(),
    }
}
