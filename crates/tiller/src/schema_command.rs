//! `tiller schema`: the JSON Schema of the protocol.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;
use tiller_protocol::{Level, schema};

/// Print the JSON Schema (2020-12) of the protocol
///
/// The schema describes every line that a client may write and every line that tiller may write at
/// a level. `hello` returns its hash, so that a client can tell whether its types are current.
#[derive(Parser)]
#[command(name = "tiller schema", disable_version_flag = true)]
pub struct SchemaCommand {
    /// The level: pi, pi-delta or xcsh [default: pi; with --out all of them]
    #[arg(long, value_name = "LEVEL", value_parser = level)]
    wire: Option<Level>,
    /// What a server of many sessions adds (`tiller serve`), instead of a level
    #[arg(long, conflicts_with = "wire")]
    sessions: bool,
    /// Write tiller-LEVEL.schema.json into this folder instead, and create the folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn level(name: &str) -> Result<Level, String> {
    let found = Level::ALL.into_iter().find(|level| level.name() == name);
    found.ok_or_else(|| "expected pi, pi-delta or xcsh".to_owned())
}

impl SchemaCommand {
    /// Returns what is printed.
    pub fn run(&self) -> Result<String, String> {
        match &self.out {
            None if self.sessions => Ok(schema::sessions::text()),
            None => Ok(schema::text(self.wire.unwrap_or_default())),
            Some(folder) => self.write(folder),
        }
    }

    fn write(&self, folder: &Path) -> Result<String, String> {
        let cannot = |path: &Path| {
            let path = path.display().to_string();
            move |err| format!("cannot write {path}: {err}")
        };
        fs::create_dir_all(folder).map_err(cannot(folder))?;
        let mut written = String::new();
        if self.wire.is_none() {
            let path = folder.join("tiller-sessions.schema.json");
            fs::write(&path, schema::sessions::text()).map_err(cannot(&path))?;
            written.push_str(&format!("{} {}\n", path.display(), schema::sessions_hash()));
        }
        if self.sessions {
            return Ok(written);
        }
        let levels = self.wire.map_or(Level::ALL.to_vec(), |level| vec![level]);
        for level in levels {
            let path = folder.join(format!("tiller-{}.schema.json", level.name()));
            fs::write(&path, schema::text(level)).map_err(cannot(&path))?;
            written.push_str(&format!("{} {}\n", path.display(), schema::hash(level)));
        }
        Ok(written)
    }
}
