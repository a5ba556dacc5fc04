//! The set of engines: which engine each extension runs in.

use std::collections::BTreeMap;
use std::io;

use crate::config::{Extension, Runtime};
use crate::engine_handle::EngineHandle;

#[derive(Default)]
pub(super) struct Engines {
    /// The shared engine of each kind.
    shared: Vec<(EngineKind, EngineHandle)>,
    /// The engine of each extension, by number. The numbers are the order in which handlers run.
    slots: BTreeMap<u32, EngineHandle>,
    /// Engines of the previous folder, in which commands may still be running.
    pub retired: Vec<EngineHandle>,
}

/// Extensions of one kind share an engine.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum EngineKind {
    Embedded,
    Sidecar(Runtime),
}

impl Engines {
    /// The highest number of an extension, or zero.
    pub(super) fn last_number(&self) -> u32 {
        self.slots.last_key_value().map_or(0, |(number, _)| *number)
    }

    /// Groups of consecutive extensions in the same engine, in load order, so that a chain of
    /// handlers runs in that order across engines.
    pub(super) fn groups(&self) -> Vec<(EngineHandle, (u32, u32))> {
        let mut groups: Vec<(EngineHandle, (u32, u32))> = Vec::new();
        for (&number, engine) in &self.slots {
            match groups.last_mut() {
                Some((group, (_, last))) if group.is(engine) => *last = number,
                _ => groups.push((engine.clone(), (number, number))),
            }
        }
        groups
    }

    /// Every engine with an extension, once.
    pub(super) fn all(&self) -> Vec<EngineHandle> {
        let mut all: Vec<EngineHandle> = Vec::new();
        for engine in self.slots.values() {
            if !all.iter().any(|known| known.is(engine)) {
                all.push(engine.clone());
            }
        }
        all
    }

    pub(super) fn of(&self, extension: u32) -> Option<&EngineHandle> {
        self.slots.get(&extension)
    }

    /// Assigns an engine of this kind to the extension with this number, and starts it if needed.
    pub(super) fn assign(
        &mut self,
        kind: EngineKind,
        extension: &Extension,
        number: u32,
        start: impl FnOnce() -> io::Result<EngineHandle>,
    ) -> io::Result<EngineHandle> {
        let shared = self.shared.iter().find(|(known, _)| *known == kind);
        let engine = match (extension.shares(), shared) {
            (true, Some((_, shared))) => shared.clone(),
            (true, None) => {
                let shared = start()?;
                self.shared.push((kind, shared.clone()));
                shared
            }
            (false, _) => start()?,
        };
        let before = self.slots.insert(number, engine.clone());
        // Stops the extension's own engine if it moves to another one.
        if let Some(before) = before.filter(|_| !extension.shares()) {
            before.stop();
        }
        Ok(engine)
    }

    /// Drops an engine that failed to start, so that the next extension starts another one.
    pub(super) fn drop_engine(&mut self, engine: &EngineHandle) {
        self.shared.retain(|(_, shared)| !shared.is(engine));
        self.slots.retain(|_, known| !known.is(engine));
        engine.stop();
    }

    pub(super) fn stop(self) {
        self.slots.values().for_each(EngineHandle::stop);
        self.shared.iter().for_each(|(_, shared)| shared.stop());
        self.retired.iter().for_each(EngineHandle::stop);
    }
}
