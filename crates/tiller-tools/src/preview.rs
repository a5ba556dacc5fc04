//! What a call is about and what it would change, for the user who has to approve it. Nothing is
//! changed.

use std::fs;
use std::path::Path;

use tiller_agent::approvals::{CallTarget, PathTarget, Place};
use tiller_agent::message::Arguments;
use tiller_agent::tool::{Tool, ToolEffect};

use crate::{edit, lock, path, write};

/// Files that are larger have no diff, and neither have changes.
const FILE_MAX_BYTES: u64 = 1024 * 1024;
const DIFF_MAX_BYTES: usize = 256 * 1024;

/// A call before it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Preview {
    pub target: CallTarget,
    /// A unified diff of what it would change, if that is known and not too long.
    pub diff: Option<String>,
}

impl Preview {
    /// Looks at the files that the call names. Blocks.
    pub fn of(tool: &Tool, arguments: &Arguments, cwd: &Path) -> Preview {
        let text = |name: &str| arguments.get(name).and_then(|value| value.as_str());
        let takes_path = || tool.spec.parameters["properties"].get("path").is_some();
        match tool.effect {
            ToolEffect::RunsCommands => {
                let command = text("command").unwrap_or_default().to_owned();
                Preview { target: CallTarget::Command(command), diff: None }
            }
            ToolEffect::Reads if takes_path() => {
                let path = path_target(cwd, text("path").unwrap_or("."), path::resolve_existing);
                Preview { target: CallTarget::Path(path), diff: None }
            }
            ToolEffect::Edits => {
                let name = text("path").unwrap_or_default();
                // `write` creates what does not exist, under the name as it is.
                let is_write = tool.name() == "write";
                let resolve = if is_write { path::resolve } else { path::resolve_existing };
                let path = path_target(cwd, name, resolve);
                let is_small = fs::metadata(&path.real)
                    .map_or(is_write, |file| file.is_file() && file.len() <= FILE_MAX_BYTES);
                let preview = if is_write { write::preview } else { edit::preview };
                let diff = is_small.then(|| preview(&path.real, arguments)).flatten();
                let diff = diff.filter(|diff| diff.len() <= DIFF_MAX_BYTES);
                Preview { target: CallTarget::Path(path), diff }
            }
            ToolEffect::Reads | ToolEffect::Other => {
                Preview { target: CallTarget::Unknown, diff: None }
            }
        }
    }
}

/// A path that cannot be resolved counts as outside of the working directory.
fn path_target(
    cwd: &Path,
    name: &str,
    resolve: fn(&Path, &str) -> std::path::PathBuf,
) -> PathTarget {
    let cwd = fs::canonicalize(cwd).unwrap_or_else(|_| cwd.to_owned());
    let named = resolve(&cwd, name);
    match lock::real(&named) {
        Ok(real) => PathTarget { place: Place::of(&real, &cwd), named, real },
        Err(_) => PathTarget { real: named.clone(), named, place: Place::Outside },
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use expect_test::expect;
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::Scratch;

    fn preview(scratch: &Scratch, name: &str, arguments: Value) -> Preview {
        let tool = crate::builtin().into_iter().find(|tool| tool.name() == name).unwrap();
        Preview::of(&tool, arguments.as_object().unwrap(), &scratch.path(""))
    }

    fn place(preview: &Preview) -> Place {
        match &preview.target {
            CallTarget::Path(path) => path.place,
            other => panic!("no path: {other:?}"),
        }
    }

    #[test]
    fn edits_and_writes_have_a_diff_and_change_nothing() {
        let scratch = Scratch::new();
        scratch.write("a.txt", "one\ntwo\n");
        let edits = json!([{ "oldText": "two", "newText": "2" }]);
        let edit = preview(&scratch, "edit", json!({ "path": "a.txt", "edits": edits }));
        expect![[r#"
            --- a.txt
            +++ a.txt
            @@ -1,2 +1,2 @@
             one
            -two
            +2
        "#]]
        .assert_eq(edit.diff.as_deref().unwrap());
        let write = preview(&scratch, "write", json!({ "path": "a.txt", "content": "one\n" }));
        expect![[r#"
            --- a.txt
            +++ a.txt
            @@ -1,2 +1,1 @@
             one
            -two
        "#]]
        .assert_eq(write.diff.as_deref().unwrap());
        let new = preview(&scratch, "write", json!({ "path": "new/b.txt", "content": "x\n" }));
        expect![[r#"
            --- new/b.txt
            +++ new/b.txt
            @@ -0,0 +1,1 @@
            +x
        "#]]
        .assert_eq(new.diff.as_deref().unwrap());
        assert_eq!(scratch.read("a.txt"), "one\ntwo\n");
        assert!(!scratch.path("new").exists());
        for arguments in [
            json!({ "path": "a.txt", "edits": [{ "oldText": "three", "newText": "" }] }),
            json!({ "path": "gone", "edits": [{ "oldText": "three", "newText": "" }] }),
            json!({}),
        ] {
            assert_eq!(preview(&scratch, "edit", arguments).diff, None);
        }
        scratch.write("long", "x\n".repeat(600_000));
        let write = preview(&scratch, "write", json!({ "path": "long", "content": "" }));
        assert_eq!(write.diff, None);
    }

    #[test]
    fn place_is_that_of_the_file_behind_links() {
        let scratch = Scratch::new();
        scratch.write("a", "").write(".git/config", "");
        symlink("/etc", scratch.path("out")).unwrap();
        symlink("/etc/tiller-new", scratch.path("dangling")).unwrap();
        symlink(".git/config", scratch.path("config")).unwrap();
        symlink("loop", scratch.path("loop")).unwrap();
        for (path, expected) in [
            ("a", Place::Inside),
            ("new/deep", Place::Inside),
            ("out/hosts", Place::Outside),
            ("dangling", Place::Outside),
            ("../x", Place::Outside),
            ("/etc/hosts", Place::Outside),
            ("config", Place::Protected),
            (".git/hooks/x", Place::Protected),
            ("loop", Place::Outside),
        ] {
            let write = preview(&scratch, "write", json!({ "path": path, "content": "" }));
            assert_eq!(place(&write), expected, "{path}");
        }
        let list = preview(&scratch, "ls", json!({}));
        assert_eq!(place(&list), Place::Inside);
    }

    #[test]
    fn target_of_bash_is_its_command() {
        let scratch = Scratch::new();
        let bash = preview(&scratch, "bash", json!({ "command": "ls; x" }));
        assert_eq!(bash.target, CallTarget::Command("ls; x".to_owned()));
    }
}
