//! Finds and loads modules. The engine asks for a module by the name in an import and gets source
//! that it can run. Importing a name that does not exist gives `undefined` instead of failing: a
//! facade module fills the gap.
//!
//! A module's id is its path and the number of the extension that imports it, as in `/a/b.ts?3`,
//! because each extension has its own modules. Built-in modules have ids such as `node:fs`.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

pub(crate) mod builtin;
pub(crate) mod commonjs;
mod depth;
mod own_files;
mod resolve;
mod source;
pub(crate) mod stack;
pub(crate) mod transform;

pub(crate) use own_files::OwnFiles;
use resolve::{Resolve, ResolvedModule};
use transform::{Import, Unit};

use crate::config::Runtime;

pub(crate) struct Modules {
    /// The sidecar program that runs the modules, if any. It has node's modules and runs scripts
    /// itself.
    elsewhere: Option<Runtime>,
    /// Extensions that should fail to load, and be tried in a sidecar, if they import what the
    /// embedded engine lacks.
    strict: HashSet<u32>,
    /// The only files that may be loaded, if the extension may not read others.
    own_files: Option<OwnFiles>,
    resolve: Resolve,
    units: HashMap<PathBuf, Rc<Read>>,
    /// The code of files that the engine has not loaded yet; afterwards the engine has its own
    /// copy.
    codes: HashMap<PathBuf, String>,
    /// By the importer's id and the name it uses.
    links: HashMap<(String, String), String>,
    facades: Vec<String>,
    /// Missing exports found since the last `take_warnings`, each once.
    warnings: Vec<String>,
    warned: HashSet<String>,
}

/// A file and its kind.
enum Read {
    Code(Unit, Option<bool>),
    Json(String),
}

/// How `require` loads a module.
pub(crate) enum Required {
    /// Evaluated by the engine as a module.
    Module(String),
    Script {
        id: String,
        path: PathBuf,
    },
    Json {
        id: String,
        text: String,
    },
}

impl Modules {
    pub(crate) fn new(elsewhere: Option<Runtime>, own_files: Option<OwnFiles>) -> Modules {
        Modules {
            elsewhere,
            strict: HashSet::new(),
            own_files,
            resolve: Resolve::new(),
            units: HashMap::new(),
            codes: HashMap::new(),
            links: HashMap::new(),
            facades: Vec::new(),
            warnings: Vec::new(),
            warned: HashSet::new(),
        }
    }

    /// The id of an extension's own file. If `strictly`, importing what the embedded engine lacks
    /// fails when it is linked instead of when it is used.
    pub(crate) fn entry(
        &mut self,
        path: &Path,
        extension: u32,
        strictly: bool,
    ) -> Result<String, String> {
        if strictly {
            self.strict.insert(extension)
        } else {
            self.strict.remove(&extension)
        };
        let module = self.resolve.file(path)?;
        self.link_to(module, &Import::default(), "", extension)
    }

    /// The id of what `importer` calls `name`.
    pub(crate) fn resolve(&mut self, importer: &str, name: &str) -> Result<String, String> {
        // Built-in modules and facades use ids.
        if builtin::is_id(importer) || importer.starts_with("facade:") {
            return Ok(name.to_owned());
        }
        let key = (importer.to_owned(), name.to_owned());
        if let Some(id) = self.links.get(&key) {
            return Ok(id.clone());
        }
        // Not among the static imports: a dynamic import of the whole namespace.
        let wanted = Import { from: name.to_owned(), names: Vec::new(), whole: true };
        let id = self.link(importer, &wanted)?;
        self.links.insert(key, id.clone());
        Ok(id)
    }

    /// The source of a module that is not built in, and its path if it is a file.
    pub(crate) fn load(&mut self, id: &str) -> Result<(String, Option<PathBuf>), String> {
        if let Some(number) = id.strip_prefix("facade:").and_then(|id| id.parse::<usize>().ok()) {
            let source = self.facades.get(number).cloned();
            return source.map(|source| (source, None)).ok_or_else(|| format!("no module {id}"));
        }
        let (path, _) = split(id);
        let path = path.to_owned();
        let read = self.read(&path, None)?;
        let Read::Code(unit, _) = &*read else {
            return Err(format!("not a module: {}", path.display()));
        };
        for import in &unit.imports {
            match self.link(id, import) {
                Ok(target) => {
                    self.links.insert((id.to_owned(), import.from.clone()), target);
                }
                // It may be a module of the sidecar's; if not, the sidecar fails with the same
                // error.
                Err(_) if self.elsewhere.is_some() => (),
                Err(message) => return Err(message),
            }
        }
        let code = self.take_code(&path)?;
        Ok((code, Some(path)))
    }

    /// The same for a sidecar, and whether it is a script.
    pub(crate) fn source(&mut self, id: &str) -> Result<(String, bool), String> {
        if let Some(builtin) = builtin::find(id) {
            return Ok((builtin.source.to_owned(), false));
        }
        let (source, path) = self.load(id)?;
        let is_script = path.is_some_and(|path| {
            let read = self.units.get(&path).map(|read| &**read);
            matches!(read, Some(Read::Code(unit, _)) if unit.is_script)
        });
        Ok((source, is_script))
    }

    /// What `require(name)` in `importer` resolves to.
    pub(crate) fn require(&mut self, importer: &str, name: &str) -> Result<Required, String> {
        let (from, extension) = split(importer);
        let from = from.to_owned();
        match self.locate(&from, name, resolve::By::Require)? {
            ResolvedModule::Builtin(id) => Ok(Required::Module(id.to_owned())),
            ResolvedModule::File { path, is_module } => {
                let id = join(&path, extension);
                match &*self.read(&path, is_module)? {
                    Read::Json(text) => Ok(Required::Json { id, text: text.clone() }),
                    Read::Code(unit, _) if unit.is_script => Ok(Required::Script { id, path }),
                    Read::Code(..) => Ok(Required::Module(id)),
                }
            }
        }
    }

    /// The script or JSON text with this id, for its facade.
    pub(crate) fn script(&mut self, id: &str) -> Result<Required, String> {
        let (path, _) = split(id);
        let path = path.to_owned();
        let id = id.to_owned();
        Ok(match &*self.read(&path, None)? {
            Read::Json(text) => Required::Json { id, text: text.clone() },
            Read::Code(..) => Required::Script { id, path },
        })
    }

    /// The code of a script that is about to run.
    pub(crate) fn script_code(&mut self, id: &str) -> Result<String, String> {
        let path = split(id).0.to_owned();
        self.read(&path, None)?;
        self.take_code(&path)
    }

    /// The path of `name`, for `import.meta.resolve` and `require.resolve`.
    pub(crate) fn find(&mut self, importer: &str, name: &str) -> Result<String, String> {
        let from = split(importer).0.to_owned();
        match self.locate(&from, name, resolve::By::Require)? {
            ResolvedModule::Builtin(id) => Ok(id.to_owned()),
            ResolvedModule::File { path, .. } => Ok(path.to_string_lossy().into_owned()),
        }
    }

    /// Whether the module with this id is one of `others` or imports one, directly or not.
    pub(crate) fn reaches(&mut self, id: &str, others: &HashSet<String>) -> bool {
        let mut seen = HashSet::new();
        let mut todo = vec![id.to_owned()];
        while let Some(id) = todo.pop() {
            if builtin::is_id(&id) || !seen.insert(id.clone()) {
                continue;
            }
            if others.contains(&id) {
                return true;
            }
            let (path, extension) = split(&id);
            let path = path.to_owned();
            let Ok(read) = self.read(&path, None) else { continue };
            let Read::Code(unit, _) = &*read else { continue };
            for import in &unit.imports {
                if let Ok(ResolvedModule::File { path, is_module }) =
                    self.locate(&path, &import.from, resolve::By::Import)
                    // Read now, while the importer's view of the file kind is known.
                    && self.read(&path, is_module).is_ok()
                {
                    todo.push(join(&path, extension));
                }
            }
        }
        false
    }

    /// Missing exports found so far, once each.
    pub(crate) fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// Whether positions in errors already refer to the author's file.
    pub(crate) fn has_written_places(&self) -> bool {
        self.elsewhere == Some(Runtime::Bun)
    }

    /// The text of a file that was loaded before.
    pub(crate) fn text(&self, path: &Path) -> Option<String> {
        self.units.get(path).and_then(|_| source::read(path).ok())
    }

    /// Whether the file was declared a module or a script when it was read.
    pub(crate) fn nature(&self, path: &Path) -> Option<bool> {
        match self.units.get(path).map(|read| &**read) {
            Some(Read::Code(_, is_module)) => *is_module,
            _ => None,
        }
    }

    /// Resolves a name. An extension that may not read files can only resolve its own.
    fn locate(&self, from: &Path, name: &str, by: resolve::By) -> Result<ResolvedModule, String> {
        let Some(own_files) = &self.own_files else { return self.resolve.locate(from, name, by) };
        if !own_files.may_name(from, name) {
            return Err(own_files::refused(name));
        }
        match self.resolve.locate(from, name, by)? {
            ResolvedModule::File { path, .. } if !own_files.contains(&path) => {
                Err(own_files::refused(name))
            }
            module => Ok(module),
        }
    }

    fn link(&mut self, importer: &str, import: &Import) -> Result<String, String> {
        let (from, extension) = split(importer);
        let from = from.to_owned();
        let module = self.locate(&from, &import.from, resolve::By::Import)?;
        self.link_to(module, import, importer, extension)
    }

    fn link_to(
        &mut self,
        module: ResolvedModule,
        import: &Import,
        importer: &str,
        extension: u32,
    ) -> Result<String, String> {
        let (id, missing) = match module {
            ResolvedModule::Builtin(id) if self.elsewhere.is_some() && id.starts_with("node:") => {
                return Ok(id.to_owned());
            }
            ResolvedModule::Builtin(id) => {
                if self.strict.contains(&extension)
                    && let Some(lacking) = builtin::lacking(id, &import.names)
                {
                    return Err(format!("{lacking} {}", builtin::LACKING));
                }
                let known = builtin::exports(id);
                let lacks = |name: &&String| *name != "default" && !known.contains(&name.as_str());
                (id.to_owned(), import.names.iter().filter(lacks).cloned().collect::<Vec<_>>())
            }
            ResolvedModule::File { path, .. } if self.elsewhere.is_some() && is_addon(&path) => {
                let id = join(&path, extension);
                return Ok(self.facade(commonjs::facade(&id, import.names.clone(), true)));
            }
            ResolvedModule::File { path, is_module } => {
                let read = self.read(&path, is_module)?;
                let id = join(&path, extension);
                match &*read {
                    Read::Code(unit, _) if !unit.is_script => {
                        let mut missing = Vec::new();
                        for name in &import.names {
                            if !self.exports(&path, name, &mut HashSet::new()) {
                                missing.push(name.clone());
                            }
                        }
                        (id, missing)
                    }
                    Read::Code(..) => {
                        let mut names = import.names.clone();
                        if import.whole {
                            names.extend(self.script_exports(&path, &mut HashSet::new()));
                        }
                        // Packages expect node's interop, authors of extensions jiti's.
                        let as_node = split(importer).0.iter().any(|part| part == "node_modules");
                        return Ok(self.facade(commonjs::facade(&id, names, as_node)));
                    }
                    Read::Json(_) => {
                        let names = import.names.clone();
                        return Ok(self.facade(commonjs::facade(&id, names, true)));
                    }
                }
            }
        };
        if missing.is_empty() {
            return Ok(id);
        }
        for name in &missing {
            let from = if import.from.is_empty() { &id } else { &import.from };
            let warning = format!("\"{from}\" has no export \"{name}\"; it is undefined");
            if self.warned.insert(warning.clone()) {
                self.warnings.push(warning);
            }
        }
        let has_default =
            builtin::is_id(&id) || self.exports(split(&id).0, "default", &mut HashSet::new());
        Ok(self.facade(gap_filler(&id, has_default, &missing)))
    }

    fn facade(&mut self, source: String) -> String {
        self.facades.push(source);
        format!("facade:{}", self.facades.len() - 1)
    }

    fn read(&mut self, path: &Path, is_module: Option<bool>) -> Result<Rc<Read>, String> {
        if let Some(read) = self.units.get(path) {
            return Ok(read.clone());
        }
        if is_addon(path) {
            return Err(format!("native addons {}: {}", builtin::LACKING, path.display()));
        }
        if let Some(own_files) = &self.own_files
            && !own_files.may_load(path)
        {
            return Err(own_files::refused(&path.display().to_string()));
        }
        let text =
            source::read(path).map_err(|err| format!("cannot read {}: {err}", path.display()))?;
        let read = if path.extension().is_some_and(|extension| extension == "json") {
            Read::Json(text)
        } else {
            let mut unit = transform::transform(path, &text, is_module)?;
            self.codes.insert(path.to_owned(), std::mem::take(&mut unit.code));
            Read::Code(unit, is_module)
        };
        let read = Rc::new(read);
        self.units.insert(path.to_owned(), read.clone());
        Ok(read)
    }

    /// The code of a file; reads it again if another extension has already taken it.
    fn take_code(&mut self, path: &Path) -> Result<String, String> {
        if let Some(code) = self.codes.remove(path) {
            return Ok(code);
        }
        let nature = self.nature(path);
        self.units.remove(path);
        self.read(path, nature)?;
        Ok(self.codes.remove(path).unwrap_or_default())
    }

    /// Whether the module at `path` exports `name`, itself or through `export *`.
    fn exports(&mut self, path: &Path, name: &str, seen: &mut HashSet<PathBuf>) -> bool {
        if !seen.insert(path.to_owned()) {
            return false;
        }
        let Ok(read) = self.read(path, None) else { return false };
        let Read::Code(unit, _) = &*read else { return true };
        if unit.is_script || unit.exports.iter().any(|export| export == name) {
            return true;
        }
        // `export *` never exports the default.
        name != "default"
            && unit.stars.iter().any(|star| {
                match self.locate(path, star, resolve::By::Import) {
                    Ok(ResolvedModule::Builtin(id)) => builtin::exports(id).contains(&name),
                    Ok(ResolvedModule::File { path, is_module }) => {
                        // Read with its own kind, which `exports` does not know.
                        self.read(&path, is_module).is_ok() && self.exports(&path, name, seen)
                    }
                    Err(_) => false,
                }
            })
    }

    /// The names a script seems to export, including those of scripts it re-exports.
    fn script_exports(&mut self, path: &Path, seen: &mut HashSet<PathBuf>) -> Vec<String> {
        if !seen.insert(path.to_owned()) {
            return Vec::new();
        }
        let nature = self.nature(path);
        let Ok(read) = self.read(path, nature) else { return Vec::new() };
        let Read::Code(unit, _) = &*read else { return Vec::new() };
        let mut names = unit.exports.clone();
        for star in &unit.stars {
            if let Ok(ResolvedModule::File { path, is_module }) =
                self.locate(path, star, resolve::By::Require)
                && let Ok(read) = self.read(&path, is_module)
                && let Read::Code(..) = &*read
            {
                names.extend(self.script_exports(&path, seen));
            }
        }
        names
    }
}

/// A module that re-exports the one with this id and adds the missing names.
fn gap_filler(id: &str, has_default: bool, missing: &[String]) -> String {
    let id = serde_json::Value::from(id);
    let mut source = format!("export * from {id};");
    if has_default {
        write!(source, "export {{ default }} from {id};").ok();
    }
    source += "const missing = undefined;";
    for name in missing.iter().filter(|name| *name != "default" || !has_default) {
        write!(source, "export {{ missing as {} }};", commonjs::export_name(name)).ok();
    }
    source
}

fn is_addon(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "node")
}

fn join(path: &Path, extension: u32) -> String {
    format!("{}?{extension}", path.display())
}

/// The path in an id, and the number of its extension.
pub(crate) fn split(id: &str) -> (&Path, u32) {
    match id.rsplit_once('?') {
        Some((path, extension)) => (Path::new(path), extension.parse().unwrap_or(0)),
        None => (Path::new(id), 0),
    }
}
