//! What settings say about extensions: what each may do, and the packages they come in.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How one extension is kept, and what it may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
pub struct ExtensionSettings {
    /// Whether it has a JavaScript engine of its own instead of sharing one with the others.
    pub isolate: Option<bool>,
    /// What runs it: the engine inside tiller (`embedded`), a `node` or a `bun` beside it, or
    /// `auto`, which is the first of these that can.
    pub engine: ExtensionEngine,
    /// What it may touch by itself; everything unless set.
    pub permissions: ExtensionPermissions,
}

/// What runs an extension, the most cautious first.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum ExtensionEngine {
    Embedded,
    Node,
    Bun,
    #[default]
    Auto,
}

/// What an extension may touch by itself. One that may not everything is isolated in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, expecting = "an object")]
pub struct ExtensionPermissions {
    /// Files and folders.
    pub fs: Option<bool>,
    /// Other programs.
    pub exec: Option<bool>,
    /// The network.
    pub net: Option<bool>,
    /// Environment variables, and keys of providers.
    pub env: Option<bool>,
}

/// A package that brings extensions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected where a package is from, or an object with that `source`")]
pub enum Package {
    /// All that is in it.
    Whole(String),
    /// Some of it.
    Part(PackagePart),
}

/// What is wanted of a package.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PackagePart {
    pub source: String,
    /// Patterns of the extensions that are wanted; without the list all of them are.
    #[serde(default)]
    pub extensions: Option<Vec<String>>,
    /// In a project's file, `false` only changes what the user's own settings want of it.
    #[serde(default)]
    pub autoload: Option<bool>,
}

impl Package {
    pub(crate) fn into_part(self) -> PackagePart {
        match self {
            Package::Whole(source) => PackagePart { source, extensions: None, autoload: None },
            Package::Part(part) => part,
        }
    }
}
