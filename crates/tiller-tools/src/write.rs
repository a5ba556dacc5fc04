//! `write`: writes a whole file, new or existing.

use std::fs;
use std::io;
use std::path::Path;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tiller_agent::message::Arguments;
use tiller_agent::tool::{Tool, ToolContext, ToolEffect, ToolOutput, ToolResult};

use crate::edit::diff::Diff;
use crate::{atomic_write, blocking, lock, os_error, path, typed};

static SPEC: typed::SharedSpec = typed::SharedSpec::new(|| {
    let description = "Write a file. Replaces what is there, and creates missing directories.";
    typed::spec::<WriteInput>("write", description)
});

pub fn tool() -> Tool {
    typed::tool(&SPEC, run)
        .effect(ToolEffect::Edits)
        .snippet("Create a file or replace all of it")
        .rule("Use write for new files and complete rewrites, and edit for changes")
}

/// What the model may ask for. These comments become the schema it reads.
#[derive(Deserialize, JsonSchema)]
struct WriteInput {
    /// File to write, relative to the working directory or absolute
    path: String,
    /// All of the file's content
    content: String,
}

async fn run(input: WriteInput, cx: ToolContext) -> ToolResult {
    let path = path::resolve(&cx.cwd, &input.path);
    let locked = lock::lock(path.clone(), &cx.cancel).await?;
    // Runs to completion once started, so that a call that reports an abort never changes a file.
    blocking::finish_call(&cx, move || save(&path, &locked.path, &input)).await
}

fn save(path: &Path, real: &Path, input: &WriteInput) -> ToolResult {
    if let Some(parent) = real.parent() {
        fs::create_dir_all(parent).map_err(|err| os_error::failure(&err, "mkdir", parent))?;
    }
    atomic_write::replace(real, input.content.as_bytes())
        .map_err(|err| os_error::failure(&err, "open", path))?;
    let bytes = input.content.len();
    Ok(ToolOutput::text(format!("Successfully wrote {bytes} bytes to {}", input.path)))
}

/// The unified diff of what a call would change in this file.
pub(crate) fn preview(file: &Path, arguments: &Arguments) -> Option<String> {
    let input = WriteInput::deserialize(&Value::Object(arguments.clone())).ok()?;
    let old = match fs::read_to_string(file) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => String::new(),
        old => old.ok()?,
    };
    Some(Diff::between(&old, &input.content).patch(&input.path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use expect_test::expect;
    use serde_json::json;

    use super::*;
    use crate::testing::Scratch;

    #[tokio::test]
    async fn results() {
        let scratch = Scratch::new();
        scratch.write("b.txt", "before").write("dir/x", "");
        let calls = [
            json!({"path": "sub/new.txt", "content": "fresh héllo\n"}),
            json!({"path": "b.txt", "content": "replaced"}),
            json!({"path": "deep/er/still", "content": ""}),
            json!({"path": "dir", "content": "x"}),
            json!({"path": "b.txt/x", "content": "x"}),
            json!({"path": "/dev/null", "content": "gone"}),
        ];
        let report = scratch.report(tool(), &calls).await;
        expect![[r#"
            > {"path":"sub/new.txt","content":"fresh héllo\n"}
            Successfully wrote 13 bytes to sub/new.txt
            > {"path":"b.txt","content":"replaced"}
            Successfully wrote 8 bytes to b.txt
            > {"path":"deep/er/still","content":""}
            Successfully wrote 0 bytes to deep/er/still
            > {"path":"dir","content":"x"}
            error: EISDIR: illegal operation on a directory, open '$CWD/dir'
            > {"path":"b.txt/x","content":"x"}
            error: ENOTDIR: not a directory, open '$CWD/b.txt/x'
            > {"path":"/dev/null","content":"gone"}
            Successfully wrote 4 bytes to /dev/null
        "#]]
        .assert_eq(&report);
        assert_eq!(scratch.read("sub/new.txt"), "fresh héllo\n");
        assert_eq!(scratch.read("b.txt"), "replaced");
        assert_eq!(scratch.read("deep/er/still"), "");
    }

    #[tokio::test]
    async fn writing_through_a_link_changes_its_target() {
        let scratch = Scratch::new();
        scratch.write("target", "old");
        symlink("target", scratch.path("link")).unwrap();
        symlink("new", scratch.path("dangling")).unwrap();
        symlink("self", scratch.path("self")).unwrap();
        for (name, content) in [("link", "new"), ("dangling", "made")] {
            let call = json!({"path": name, "content": content});
            scratch.result(tool(), call).await.unwrap();
        }
        assert_eq!((scratch.read("target"), scratch.read("new")), ("new".into(), "made".into()));
        assert!(scratch.path("link").is_symlink() && scratch.path("dangling").is_symlink());
        let calls = [json!({"path": "self", "content": "x"})];
        let report = scratch.report(tool(), &calls).await;
        expect![[r#"
            > {"path":"self","content":"x"}
            error: ELOOP: too many symbolic links encountered, open '$CWD/self'
        "#]]
        .assert_eq(&report);
    }

    #[tokio::test]
    async fn modes() {
        let scratch = Scratch::new();
        scratch.write("script", "old").write("plain", "");
        let mode = |name: &str| scratch.path(name).metadata().unwrap().permissions().mode() & 0o777;
        fs::set_permissions(scratch.path("script"), fs::Permissions::from_mode(0o755)).unwrap();
        for name in ["script", "fresh"] {
            scratch.result(tool(), json!({"path": name, "content": "x"})).await.unwrap();
        }
        // A new file has the default permissions.
        assert_eq!((mode("script"), mode("fresh")), (0o755, mode("plain")));
    }
}
