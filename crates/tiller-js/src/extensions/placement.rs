//! Decides which engine an extension runs in: the embedded engine, or a sidecar if the extension
//! asks for one or needs something only a sidecar has.

use serde_json::json;

use super::Extensions;
use super::engines::EngineKind;
use crate::access::{self, Access};
use crate::config::{EngineChoice, Extension, Permissions, Runtime};
use crate::engine::sidecar::Program;
use crate::engine_handle::{CallError, EngineHandle, EngineSpec, JsError};
use crate::entry::Entry;
use crate::registrations::LoadError;

/// Why an extension was not loaded.
enum Failure {
    /// There is no engine of this kind; the text says why.
    NoEngine(String),
    Thrown(JsError),
}

impl Extensions {
    pub(super) async fn load_one(
        &self,
        number: u32,
        extension: &Extension,
    ) -> Result<(), LoadError> {
        let path = extension.path.to_string_lossy().into_owned();
        let error = |error: String, at| LoadError { path: path.clone(), error, at };
        if !extension.path.exists() {
            return Err(error(format!("Extension path does not exist: {path}"), None));
        }
        let loaded = match extension.engine {
            EngineChoice::Auto => self.load_auto(extension, number).await,
            EngineChoice::Embedded => self.load_embedded(extension, number, false).await,
            EngineChoice::Sidecar(runtime) => {
                self.load_in_sidecar(extension, number, runtime).await
            }
        };
        loaded.map_err(|failure| match failure {
            Failure::NoEngine(why) => error(format!("Failed to load extension: {why}"), None),
            Failure::Thrown(JsError { message, at, .. }) => error(message, at),
        })
    }

    /// Tries the embedded engine first, then each sidecar. If no sidecar can load it either, loads
    /// it embedded without the strict check: it may work until it uses the missing feature.
    async fn load_auto(&self, extension: &Extension, number: u32) -> Result<(), Failure> {
        let runtimes = match self.check_sidecar_allowed(extension) {
            Ok(()) => self.runtimes(),
            Err(_) => Vec::new(),
        };
        let failed = match self.load_embedded(extension, number, !runtimes.is_empty()).await {
            Err(Failure::Thrown(thrown)) if thrown.lacks.is_some() => thrown,
            loaded => return loaded,
        };
        let mut reasons = Vec::new();
        for &runtime in &runtimes {
            match self.load_in_sidecar(extension, number, runtime).await {
                Err(Failure::NoEngine(why)) => reasons.push(why),
                loaded => return loaded,
            }
        }
        let failed = if runtimes.is_empty() {
            failed
        } else {
            match self.load_embedded(extension, number, false).await {
                Err(Failure::Thrown(thrown)) => thrown,
                loaded => return loaded,
            }
        };
        if let Err(why) = self.check_sidecar_allowed(extension) {
            reasons.push(why);
        } else if runtimes.is_empty() {
            reasons.push("there is no node or bun in PATH to run it beside".to_owned());
        }
        let message = format!("{}; {}", failed.message, reasons.join("; "));
        Err(Failure::Thrown(JsError { message, ..failed }))
    }

    async fn load_embedded(
        &self,
        extension: &Extension,
        number: u32,
        strictly: bool,
    ) -> Result<(), Failure> {
        self.load_in(EngineKind::Embedded, EngineSpec::Embedded, extension, number, strictly).await
    }

    async fn load_in_sidecar(
        &self,
        extension: &Extension,
        number: u32,
        runtime: Runtime,
    ) -> Result<(), Failure> {
        self.check_sidecar_allowed(extension).map_err(Failure::NoEngine)?;
        let Some(program) = Program::find(runtime, &self.inner.config) else {
            return Err(Failure::NoEngine(format!("there is no {} in PATH", runtime.name())));
        };
        let kind = EngineKind::Sidecar(runtime);
        self.load_in(kind, EngineSpec::Sidecar(program), extension, number, false).await
    }

    /// Refuses a sidecar for an extension with restricted permissions: only the embedded engine can
    /// enforce them.
    fn check_sidecar_allowed(&self, extension: &Extension) -> Result<(), String> {
        if !self.inner.config.sidecars {
            return Err("sidecars are turned off in the settings".to_owned());
        }
        if access::check(extension.permissions, Access::Sidecar).is_ok() {
            return Ok(());
        }
        let Permissions { fs, exec, net, env } = extension.permissions;
        let denied = [(fs, "fs"), (exec, "exec"), (net, "net"), (env, "env")];
        let denied: Vec<&str> =
            denied.iter().filter(|(may, _)| !may).map(|(_, name)| *name).collect();
        let denied = denied.join(", ");
        Err(format!("a sidecar cannot be kept from what the settings deny it: {denied}"))
    }

    /// The sidecar programs found in PATH.
    fn runtimes(&self) -> Vec<Runtime> {
        let is_there = |runtime: &Runtime| Program::find(*runtime, &self.inner.config).is_some();
        [Runtime::Node, Runtime::Bun].into_iter().filter(is_there).collect()
    }

    async fn load_in(
        &self,
        kind: EngineKind,
        spec: EngineSpec,
        extension: &Extension,
        number: u32,
        strictly: bool,
    ) -> Result<(), Failure> {
        let engine = self
            .slot_for(kind, spec, extension, number)
            .map_err(|err| Failure::NoEngine(format!("no thread for it: {err}")))?;
        let path = extension.path.to_string_lossy();
        let input = json!({ "number": number, "path": path, "strictly": strictly });
        match engine.call(Entry::Load, &input).await {
            Ok(_) => Ok(()),
            Err(CallError::Thrown(thrown)) => Err(Failure::Thrown(thrown)),
            Err(CallError::NoEngine(why)) => {
                self.engines().drop_engine(&engine);
                Err(Failure::NoEngine(why))
            }
            Err(err) => Err(Failure::Thrown(JsError {
                message: format!("Failed to load extension: {err}"),
                ..JsError::default()
            })),
        }
    }

    /// Assigns an engine of this kind to the extension with this number.
    fn slot_for(
        &self,
        kind: EngineKind,
        spec: EngineSpec,
        extension: &Extension,
        number: u32,
    ) -> std::io::Result<EngineHandle> {
        let start = || {
            let (config, host) = (self.inner.config.clone(), self.inner.host.clone());
            EngineHandle::start(config, host, extension, spec, self.inner.bus.clone())
        };
        self.engines().assign(kind, extension, number, start)
    }
}
