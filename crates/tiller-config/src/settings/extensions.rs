//! Settings of extensions: permissions and packages.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How one extension runs, and its permissions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
pub struct ExtensionSettings {
    /// Whether it has its own JavaScript engine instead of sharing one with other extensions.
    pub isolate: Option<bool>,
    /// What runs it: the engine inside tiller (`embedded`), a separate `node` or `bun`, or `auto`,
    /// which is the first of these that works.
    pub engine: ExtensionEngine,
    /// Its permissions; everything is allowed unless set.
    pub permissions: ExtensionPermissions,
}

/// What runs an extension, the most restricted first.
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

/// What an extension may access directly. One with a restriction always has its own engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, expecting = "an object")]
pub struct ExtensionPermissions {
    /// Files and folders.
    pub fs: Option<bool>,
    /// Other programs.
    pub exec: Option<bool>,
    /// The network.
    pub net: Option<bool>,
    /// Environment variables, and provider keys.
    pub env: Option<bool>,
}

/// A package with extensions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected the source of a package, or an object with a `source`")]
pub enum Package {
    /// All of its extensions.
    Whole(String),
    /// Some of them.
    Part(PackagePart),
}

/// Which part of a package to load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PackagePart {
    pub source: String,
    /// Patterns of the extensions to load; all if absent.
    #[serde(default)]
    pub extensions: Option<Vec<String>>,
    /// In a project's file, `false` only changes the entry of the user's settings.
    #[serde(default)]
    pub autoload: Option<bool>,
}

impl Package {
    /// The longer form, with which packages can be compared.
    pub fn into_part(self) -> PackagePart {
        match self {
            Package::Whole(source) => PackagePart { source, extensions: None, autoload: None },
            Package::Part(part) => part,
        }
    }
}
