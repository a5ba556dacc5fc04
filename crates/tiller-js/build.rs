//! Generates the table of built-in modules from the files in `js/`: an id from the path, the
//! exported names, the bytecode, so that an engine need not parse our sources, and the sources of
//! modules that also run in a sidecar. Exported names are found at the beginning of lines, so
//! `export` must stand there and nowhere else.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use rquickjs::loader::{ImportAttributes, Loader, Resolver};
use rquickjs::module::{Declared, WriteOptions, WriteOptionsEndianness};
use rquickjs::{CatchResultExt, Context, Ctx, Module, Runtime};

fn main() {
    println!("cargo::rerun-if-changed=js");
    println!("cargo::rerun-if-changed=build.rs");
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("cargo says where we are"));
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo says where to write"));
    let mut files = Vec::new();
    collect(&root.join("js"), &mut files);
    let mut rows: Vec<(String, PathBuf)> =
        files.into_iter().map(|path| (id(&root, &path), path)).collect();
    rows.sort();
    let mut table = String::from("pub(crate) static BUILTINS: &[Builtin] = &[\n");
    for (number, (id, path)) in rows.iter().enumerate() {
        let mut source = fs::read_to_string(path).expect("a file that was just listed");
        let mut exports = exports(&source);
        if !exports.iter().any(|export| export.name == "default") {
            source += &default_export(&exports);
            exports.push(Export { name: "default".into(), local: String::new() });
        }
        let mut names: Vec<&str> = exports.iter().map(|export| export.name.as_str()).collect();
        names.sort();
        names.dedup();
        let code = format!("{number}.bytecode");
        // Node and bun have their own modules, and sidecar modules do not run in the embedded
        // engine.
        let is_ours = !id.starts_with("sidecar:");
        let is_theirs = !id.starts_with("node:") && !id.starts_with("web:");
        let bytecode = if is_ours { compile(id, &source) } else { Vec::new() };
        fs::write(out.join(&code), bytecode).expect("cargo's folder is ours to write to");
        let text = format!("{number}.js");
        let source = if is_theirs { source.as_str() } else { "" };
        fs::write(out.join(&text), source).expect("cargo's folder is ours to write to");
        writeln!(
            table,
            "    Builtin {{ id: {id:?}, exports: &{names:?}, \
             code: include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{code}\")), \
             source: include_str!(concat!(env!(\"OUT_DIR\"), \"/{text}\")) }},"
        )
        .expect("a string takes everything");
    }
    table.push_str("];\n");
    fs::write(out.join("builtins.rs"), table).expect("cargo's folder is ours to write to");
}

/// The bytecode is loaded by the same release of the engine that writes it here.
fn compile(id: &str, source: &str) -> Vec<u8> {
    let runtime = Runtime::new().expect("an engine");
    runtime.set_loader(Anything, Anything);
    let context = Context::full(&runtime).expect("a context");
    let is_big = env::var("CARGO_CFG_TARGET_ENDIAN").is_ok_and(|endian| endian == "big");
    let options = WriteOptions {
        endianness: if is_big {
            WriteOptionsEndianness::Big
        } else {
            WriteOptionsEndianness::Little
        },
        // Keeps file names of functions, which `import()` needs.
        strip_source: true,
        ..WriteOptions::default()
    };
    context.with(|ctx| {
        let module = Module::declare(ctx.clone(), id, source);
        let code = module.and_then(|module| module.write(options)).catch(&ctx);
        code.unwrap_or_else(|err| panic!("{id}: {err}"))
    })
}

/// Stands in for every imported module; exports are resolved when the bytecode is loaded.
struct Anything;

impl Resolver for Anything {
    fn resolve<'js>(
        &mut self,
        _ctx: &Ctx<'js>,
        _base: &str,
        name: &str,
        _attributes: Option<ImportAttributes<'js>>,
    ) -> rquickjs::Result<String> {
        Ok(name.to_owned())
    }
}

impl Loader for Anything {
    fn load<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        name: &str,
        _attributes: Option<ImportAttributes<'js>>,
    ) -> rquickjs::Result<Module<'js, Declared>> {
        Module::declare(ctx.clone(), name, "")
    }
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("js is beside this file") {
        let path = entry.expect("js can be listed").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "js") {
            files.push(path);
        }
    }
}

/// `js/node/fs/promises.js` is `node:fs/promises`, and `js/runtime/host.js` is `tiller:host`.
fn id(root: &Path, path: &Path) -> String {
    let name = path.strip_prefix(root.join("js")).expect("listed under js").with_extension("");
    let name = name.to_str().expect("our own file names");
    let (scheme, name) = name.split_once('/').expect("a folder for each kind of module");
    let scheme = if scheme == "runtime" { "tiller" } else { scheme };
    format!("{scheme}:{name}")
}

struct Export {
    name: String,
    /// The name inside the module.
    local: String,
}

/// A default export with all exports, as node's modules have.
fn default_export(exports: &[Export]) -> String {
    let pairs: Vec<String> =
        exports.iter().map(|export| format!("{}: {}", export.name, export.local)).collect();
    format!("\nexport default {{ {} }};\n", pairs.join(", "))
}

fn exports(source: &str) -> Vec<Export> {
    let mut found = Vec::new();
    let mut rest = source;
    while let Some(place) = rest.find("export ") {
        let at_line_start = place == 0 || rest.as_bytes()[place - 1] == b'\n';
        rest = &rest[place + "export ".len()..];
        if !at_line_start {
            continue;
        }
        if let Some(list) = rest.strip_prefix('{') {
            let list = list.split('}').next().unwrap_or_default();
            for item in list.split(',') {
                let mut words = item.split_whitespace();
                if let (Some(local), Some(name)) = (words.next(), item.split_whitespace().last()) {
                    found.push(Export { name: name.to_owned(), local: local.to_owned() });
                }
            }
            continue;
        }
        let mut words = rest.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$'));
        const KINDS: [&str; 6] = ["", "async", "function", "class", "const", "let"];
        if let Some(name) = words.find(|word| !KINDS.contains(word)) {
            found.push(Export { name: name.to_owned(), local: name.to_owned() });
        }
    }
    found
}
