//! The built-in modules. Their sources are in `js/`; `build.rs` compiles them and generates the
//! table.

use rquickjs::module::Declared;
use rquickjs::{Ctx, Module};

pub(crate) struct Builtin {
    pub id: &'static str,
    /// Exported names.
    pub exports: &'static [&'static str],
    pub code: &'static [u8],
    /// The source, if the module also runs in a sidecar.
    pub source: &'static str,
}

impl Builtin {
    #[allow(unsafe_code)]
    pub(crate) fn declare<'js>(&self, ctx: &Ctx<'js>) -> rquickjs::Result<Module<'js, Declared>> {
        // SAFETY: `build.rs` wrote these bytes with the same release of the engine, and they are
        // static.
        unsafe { Module::load(ctx.clone(), self.code) }
    }
}

include!(concat!(env!("OUT_DIR"), "/builtins.rs"));

/// Packages that replace pi's own, under all the names these have had.
const PACKAGES: &[(&str, &str)] = &[
    ("pi-coding-agent", "pi:coding-agent"),
    ("pi-agent-core", "pi:agent-core"),
    ("pi-tui", "pi:tui"),
    ("pi-ai", "pi:ai"),
    ("pi-ai/compat", "pi:ai"),
    ("pi-ai/oauth", "pi:ai/oauth"),
    ("pi-ai/providers/all", "pi:ai"),
];
const SCOPES: [&str; 2] = ["@earendil-works/", "@mariozechner/"];
const TYPEBOX: &[(&str, &str)] = &[
    ("typebox", "pi:typebox"),
    ("typebox/type", "pi:typebox"),
    ("typebox/value", "pi:typebox/value"),
    ("typebox/compile", "pi:typebox/compile"),
    ("typebox/compiler", "pi:typebox/compile"),
];

/// Part of every error about a feature that only a sidecar has.
pub(crate) const LACKING: &str = "cannot run inside tiller";

/// Whether node has a module of this name and tiller does not.
pub(crate) fn is_nodes_own(name: &str) -> bool {
    const OTHERS: [&str; 9] =
        ["cluster", "domain", "punycode", "repl", "sea", "sys", "test", "trace_events", "wasi"];
    OTHERS.contains(&name.split('/').next().unwrap_or(name))
}

/// The first of these names, imported from a built-in module, that only a sidecar supports.
pub(crate) fn lacking(id: &str, names: &[String]) -> Option<&'static str> {
    match id {
        "node:sqlite" => Some("node:sqlite"),
        "node:worker_threads" if names.iter().any(|name| name == "Worker") => {
            Some("node:worker_threads.Worker")
        }
        _ => None,
    }
}

/// Whether this is the id of a built-in module rather than a path.
pub(crate) fn is_id(id: &str) -> bool {
    ["tiller:", "node:", "pi:", "web:", "sidecar:"].iter().any(|scheme| id.starts_with(scheme))
}

/// The packages that tiller replaces, each with the id of its module.
pub(crate) fn packages() -> Vec<(String, &'static str)> {
    let scoped = |scope: &str, (name, id): &(&str, &'static str)| (format!("{scope}{name}"), *id);
    let pi = SCOPES.iter().flat_map(|scope| PACKAGES.iter().map(move |one| scoped(scope, one)));
    let typebox = ["", "@sinclair/"].into_iter();
    let typebox = typebox.flat_map(|scope| TYPEBOX.iter().map(move |one| scoped(scope, one)));
    pi.chain(typebox).collect()
}

/// The id of the built-in module that an extension imports as `name`.
pub(crate) fn id_of(name: &str) -> Option<&'static str> {
    if name.starts_with("tiller:") {
        return find(name).map(|builtin| builtin.id);
    }
    let packaged = SCOPES
        .iter()
        .find_map(|scope| name.strip_prefix(scope))
        .map(|package| PACKAGES.iter().find(|(known, _)| *known == package).map(|(_, id)| *id));
    if let Some(id) = packaged {
        return id;
    }
    let typebox = name.strip_prefix("@sinclair/").unwrap_or(name);
    if let Some((_, id)) = TYPEBOX.iter().find(|(known, _)| *known == typebox) {
        return Some(id);
    }
    let bare = name.strip_prefix("node:").unwrap_or(name).trim_end_matches('/');
    BUILTINS
        .iter()
        .find(|builtin| builtin.id.strip_prefix("node:") == Some(bare))
        .map(|builtin| builtin.id)
}

pub(crate) fn find(id: &str) -> Option<&'static Builtin> {
    BUILTINS.binary_search_by(|builtin| builtin.id.cmp(id)).ok().map(|place| &BUILTINS[place])
}

pub(crate) fn exports(id: &str) -> &'static [&'static str] {
    find(id).map_or(&[], |builtin| builtin.exports)
}
