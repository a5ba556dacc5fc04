//! Realistic folders, and the extensions found in them.

use std::path::{Path, PathBuf};

use crate::handlers::resources::source_info;
use expect_test::{Expect, expect};
use tempfile::TempDir;
use tiller_config::project::{Dirs, ResourceFlags};
use tiller_js::EngineChoice;

use super::package::PackageOrigin;
use super::*;

/// A home folder with an agent folder and a project.
struct Home(TempDir);

impl Home {
    /// Each line is a file name, followed by its content.
    fn with(files: &str) -> Home {
        let home = Home(tempfile::tempdir().unwrap());
        std::fs::create_dir_all(home.path("work")).unwrap();
        for line in files.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (name, content) = line.split_once(' ').unwrap_or((line, ""));
            let path = home.path(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn project(&self, approve: Option<bool>) -> Project {
        let home = self.0.path().to_owned();
        let dirs =
            Dirs { cwd: home.join("work"), agent_dir: home.join(".pi/agent"), home: Some(home) };
        Project::find(dirs, ResourceFlags { approve, ..ResourceFlags::default() })
    }

    /// A line per extension: its source as clients see it, its path, and its permissions.
    fn print(&self, approve: Option<bool>, command_line: &[&str]) -> String {
        let named = command_line.iter().filter(|text| **text != "-ne");
        let flags = ExtensionFlags {
            paths: named.map(|path| path.to_string()).collect(),
            only_these: command_line.contains(&"-ne"),
            ..ExtensionFlags::default()
        };
        let discovery = find(&self.project(approve), &flags);
        let mut lines = Vec::new();
        for DiscoveredExtension { extension, source } in &discovery.found {
            let info = source_info(source.extension_info(&extension.path));
            let info = serde_json::to_value(info).unwrap();
            let text = |key: &str| info[key].as_str().unwrap_or("-").to_owned();
            let mut line = [text("source"), text("scope"), text("path")].join(" ");
            if text("origin") == "package" {
                line += &format!(" in {}", text("baseDir"));
            }
            let Extension { isolate, permissions, engine, .. } = extension;
            let marks = [
                (*isolate, " isolate"),
                (!permissions.fs, " -fs"),
                (!permissions.exec, " -exec"),
                (!permissions.net, " -net"),
                (!permissions.env, " -env"),
            ];
            if *engine != EngineChoice::Auto {
                line += &format!(" {engine:?}");
            }
            line.extend(marks.iter().filter(|(is_set, _)| *is_set).map(|(_, mark)| *mark));
            lines.push(line);
        }
        lines.extend(discovery.problems.iter().map(|problem| format!("! {}", problem.error)));
        lines.join("\n").replace(&*self.0.path().to_string_lossy(), "HOME")
    }
}

fn check(home: &Home, command_line: &[&str], expected: Expect) {
    expected.assert_eq(&home.print(Some(true), command_line));
}

#[test]
fn empty_folders_have_no_extensions() {
    check(&Home::with(""), &[], expect![[""]]);
}

#[test]
fn scripts_indexes_and_manifests_are_extensions() {
    let home = Home::with(
        r#"
        .pi/agent/extensions/b.ts
        .pi/agent/extensions/a.js
        .pi/agent/extensions/types.d.ts
        .pi/agent/extensions/notes.md
        .pi/agent/extensions/.hidden.ts
        .pi/agent/extensions/node_modules/x/index.js
        .pi/agent/extensions/indexed/index.js
        .pi/agent/extensions/indexed/index.ts
        .pi/agent/extensions/indexed/more.ts
        .pi/agent/extensions/older/index.js
        .pi/agent/extensions/nothing/deeper/index.ts
        .pi/agent/extensions/declared/package.json {"pi": {"extensions": ["./src/main.ts", "gone.ts", "more"]}}
        .pi/agent/extensions/declared/src/main.ts
        .pi/agent/extensions/declared/more/one.ts
        .pi/agent/extensions/declared/more/two/index.js
        .pi/agent/extensions/declared/index.ts
        .pi/agent/extensions/plain/package.json {"main": "index.js", "pi": {"skills": ["s"]}}
        .pi/agent/extensions/plain/index.js
        .pi/agent/extensions/broken/package.json {"pi": 3}
        .pi/agent/extensions/broken/index.ts
        elsewhere/linked.ts
        "#,
    );
    let link = |to: &str, name: &str| {
        std::os::unix::fs::symlink(to, home.path(".pi/agent/extensions").join(name)).unwrap();
    };
    link("../../../elsewhere/linked.ts", "z.ts");
    // The same file again, through another path.
    link("a.js", "zz.js");
    link("indexed", "zzz");
    check(
        &home,
        &[],
        expect![[r#"
            auto user HOME/.pi/agent/extensions/a.js
            auto user HOME/.pi/agent/extensions/b.ts
            auto user HOME/.pi/agent/extensions/broken/index.ts
            auto user HOME/.pi/agent/extensions/declared/src/main.ts
            auto user HOME/.pi/agent/extensions/declared/more/one.ts
            auto user HOME/.pi/agent/extensions/declared/more/two/index.js
            auto user HOME/.pi/agent/extensions/indexed/index.ts
            auto user HOME/.pi/agent/extensions/older/index.js
            auto user HOME/.pi/agent/extensions/plain/index.js
            auto user HOME/.pi/agent/extensions/z.ts
            ! HOME/.pi/agent/extensions/broken/package.json is ignored: invalid type: integer `3`, expected an object at line 1 column 8
            ! Extension path does not exist: HOME/.pi/agent/extensions/declared/gone.ts, named in HOME/.pi/agent/extensions/declared/package.json"#]],
    );
}

const EVERYWHERE: &str = r#"
    .pi/agent/settings.json {"extensions": ["../../own", "~/tools/x.ts"], "packages": ["npm:@scope/pack@1.2.0"]}
    own/user-listed.ts
    tools/x.ts
    .pi/agent/extensions/user.ts
    .pi/agent/npm/node_modules/@scope/pack/extensions/packed.ts
    work/.pi/settings.json {"extensions": ["more/p.ts", "gone.ts"], "packages": ["./local"]}
    work/.pi/more/p.ts
    work/.pi/extensions/project.ts
    work/.pi/agent/extensions/inner.ts
    work/.pi/local/extensions/l.ts
    work/cli.ts
    work/folder/one.ts
    work/folder/two/index.ts
    work/whole/index.ts
    work/whole/not.ts
    work/empty/readme.md
"#;

#[test]
fn command_line_comes_before_project_and_user() {
    let home = Home::with(EVERYWHERE);
    check(
        &home,
        &["cli.ts", "folder", "./whole/", "~/tools/x.ts", "gone", "empty"],
        expect![[r#"
            cli temporary HOME/work/cli.ts
            cli temporary HOME/work/folder/one.ts
            cli temporary HOME/work/folder/two/index.ts
            cli temporary HOME/work/whole/index.ts
            cli temporary HOME/tools/x.ts
            local project HOME/work/.pi/more/p.ts
            auto project HOME/work/.pi/extensions/project.ts
            auto project HOME/work/.pi/agent/extensions/inner.ts
            local user HOME/own/user-listed.ts
            auto user HOME/.pi/agent/extensions/user.ts
            ./local project HOME/work/.pi/local/extensions/l.ts in HOME/work/.pi/local
            npm:@scope/pack@1.2.0 user HOME/.pi/agent/npm/node_modules/@scope/pack/extensions/packed.ts in HOME/.pi/agent/npm/node_modules/@scope/pack
            ! Extension path does not exist: HOME/work/gone
            ! No extension in HOME/work/empty
            ! Extension path does not exist: HOME/work/.pi/gone.ts"#]],
    );
}

#[test]
fn untrusted_project_has_no_extensions() {
    let home = Home::with(EVERYWHERE);
    let expected = expect![[r#"
        local user HOME/own/user-listed.ts
        local user HOME/tools/x.ts
        auto user HOME/.pi/agent/extensions/user.ts
        npm:@scope/pack@1.2.0 user HOME/.pi/agent/npm/node_modules/@scope/pack/extensions/packed.ts in HOME/.pi/agent/npm/node_modules/@scope/pack"#]];
    expected.assert_eq(&home.print(None, &[]));
    expected.assert_eq(&home.print(Some(false), &[]));
    expect!["Not used because this project is not trusted: .pi/settings.json, .pi/extensions, .pi/agent/extensions."]
        .assert_eq(home.project(None).problems()[0].split_once(" Start").unwrap().0);
}

#[test]
fn no_extensions_flag_keeps_named_ones() {
    let home = Home::with(EVERYWHERE);
    check(&home, &["-ne"], expect![[""]]);
    check(
        &home,
        &["-ne", "cli.ts", "npm:@scope/pack", "npm:../../x", "git:github.com/a/b@v1"],
        expect![[r#"
            cli temporary HOME/work/cli.ts
            npm:@scope/pack temporary HOME/.pi/agent/npm/node_modules/@scope/pack/extensions/packed.ts in HOME/.pi/agent/npm/node_modules/@scope/pack
            ! "npm:../../x" is not a valid package source
            ! Package git:github.com/a/b@v1 is not installed: not found at HOME/work/.pi/git/github.com/a/b nor at HOME/.pi/agent/git/github.com/a/b. Install it with `pi install git:github.com/a/b@v1`"#]],
    );
}

#[test]
fn settings_include_and_exclude_by_pattern() {
    let home = Home::with(
        r#"
        .pi/agent/settings.json {"extensions": ["more/**/*.ts", "!old-*", "+extensions/old-but-good.ts", "-extensions/off.ts", "-extensions/folder", "!more/deep/b.ts"]}
        .pi/agent/extensions/on.ts
        .pi/agent/extensions/off.ts
        .pi/agent/extensions/old-a.ts
        .pi/agent/extensions/old-but-good.ts
        .pi/agent/extensions/folder/index.ts
        .pi/agent/more/a.ts
        .pi/agent/more/deep/b.ts
        .pi/agent/more/deep/c.ts
        .pi/agent/more/deep/d.js
        "#,
    );
    check(
        &home,
        &[],
        expect![[r#"
            local user HOME/.pi/agent/more/a.ts
            local user HOME/.pi/agent/more/deep/c.ts
            auto user HOME/.pi/agent/extensions/old-but-good.ts
            auto user HOME/.pi/agent/extensions/on.ts"#]],
    );
}

#[test]
fn packages_load_the_configured_part() {
    let home = Home::with(
        r#"
        .pi/agent/settings.json {"packages": ["npm:said", {"source": "npm:part", "extensions": ["extensions/*.ts", "!extensions/legacy.ts"]}, {"source": "npm:none", "extensions": []}, "git:git@github.com:me/repo.git@v2", "npm:gone@1", "~/single.ts", "~/bare", {"source": "npm:changed", "extensions": ["-extensions/b.ts"]}, "npm:replaced"]}
        work/.pi/settings.json {"packages": [{"source": "npm:changed@2", "autoload": false, "extensions": ["+extensions/b.ts", "-extensions/a.ts"]}, {"source": "npm:replaced", "extensions": ["a.ts"]}, {"source": "npm:part2", "autoload": false, "extensions": ["extensions/b.ts"]}]}
        .pi/agent/npm/node_modules/said/package.json {"name": "said", "pi": {"extensions": ["./dist/*.js", "!**/*.test.js", "node_modules/inner/extensions"]}}
        .pi/agent/npm/node_modules/said/dist/main.js
        .pi/agent/npm/node_modules/said/dist/main.test.js
        .pi/agent/npm/node_modules/said/extensions/unsaid.ts
        .pi/agent/npm/node_modules/said/node_modules/inner/extensions/i.ts
        .pi/agent/npm/node_modules/part/extensions/a.ts
        .pi/agent/npm/node_modules/part/extensions/b.js
        .pi/agent/npm/node_modules/part/extensions/legacy.ts
        .pi/agent/npm/node_modules/part2/extensions/a.ts
        .pi/agent/npm/node_modules/part2/extensions/b.ts
        .pi/agent/npm/node_modules/none/extensions/a.ts
        .pi/agent/npm/node_modules/none/index.js
        .pi/agent/npm/node_modules/changed/extensions/a.ts
        .pi/agent/npm/node_modules/changed/extensions/b.ts
        .pi/agent/npm/node_modules/changed/extensions/c.ts
        .pi/agent/npm/node_modules/replaced/extensions/a.ts
        .pi/agent/npm/node_modules/replaced/extensions/b.ts
        work/.pi/npm/node_modules/replaced/extensions/a.ts
        .pi/agent/git/github.com/me/repo/extensions/g/index.ts
        single.ts
        bare/index.ts
        "#,
    );
    check(
        &home,
        &[],
        expect![[r#"
            npm:part2 project HOME/.pi/agent/npm/node_modules/part2/extensions/b.ts in HOME/.pi/agent/npm/node_modules/part2
            npm:replaced project HOME/work/.pi/npm/node_modules/replaced/extensions/a.ts in HOME/work/.pi/npm/node_modules/replaced
            npm:said user HOME/.pi/agent/npm/node_modules/said/dist/main.js in HOME/.pi/agent/npm/node_modules/said
            npm:said user HOME/.pi/agent/npm/node_modules/said/node_modules/inner/extensions/i.ts in HOME/.pi/agent/npm/node_modules/said
            npm:part user HOME/.pi/agent/npm/node_modules/part/extensions/a.ts in HOME/.pi/agent/npm/node_modules/part
            git:git@github.com:me/repo.git@v2 user HOME/.pi/agent/git/github.com/me/repo/extensions/g/index.ts in HOME/.pi/agent/git/github.com/me/repo
            ~/single.ts user HOME/single.ts in HOME/single.ts
            ~/bare user HOME/bare/index.ts in HOME/bare
            npm:changed user HOME/.pi/agent/npm/node_modules/changed/extensions/b.ts in HOME/.pi/agent/npm/node_modules/changed
            npm:changed user HOME/.pi/agent/npm/node_modules/changed/extensions/c.ts in HOME/.pi/agent/npm/node_modules/changed
            ! Package npm:gone@1 is not installed: not found at HOME/.pi/agent/npm/node_modules/gone. Install it with `pi install npm:gone@1`"#]],
    );
}

#[test]
fn package_sources_are_parsed() {
    let check = |source: &str, expected: Expect| {
        let origin = PackageOrigin::read(source);
        expected.assert_eq(&origin.map_or("a path".to_owned(), |origin| format!("{origin:?}")));
    };
    check("npm:pack", expect![[r#"Npm("pack")"#]]);
    check("npm:@scope/pack@^1.2", expect![[r#"Npm("@scope/pack")"#]]);
    check("git:github.com/me/repo@v1", expect![[r#"Git("github.com/me/repo")"#]]);
    check("git:git@github.com:me/repo", expect![[r#"Git("github.com/me/repo")"#]]);
    check("https://GitHub.com/me/repo.git", expect![[r#"Git("github.com/me/repo")"#]]);
    check("git:https://github.com/me/repo/", expect![[r#"Git("github.com/me/repo")"#]]);
    check("ssh://git@example.org:2222/a/b/c@main", expect![[r#"Git("example.org/a/b/c")"#]]);
    check("git://example.org/a", expect![[r#"Git("example.org/a")"#]]);
    check("./github.com/me", expect!["a path"]);
    check("~/x", expect!["a path"]);
    check("/x/npm:y", expect!["a path"]);
}

#[test]
fn strictest_permission_counts() {
    let home = Home::with(
        r#"
        .pi/agent/settings.json {"extensionSettings": {"*": {"permissions": {"net": false}}, "web.ts": {"permissions": {"net": true}}, "gate": {"isolate": true}, "@scope/pack": {"permissions": {"exec": false, "env": false}}, "~/tools/**/*.ts": {"permissions": {"fs": false}}, "~/tools/deep": {"isolate": true}, "firm.ts": {"permissions": {"exec": false}}, "extensions/e.ts": {"permissions": {"env": false, "net": true}}}, "packages": ["npm:@scope/pack"]}
        work/.pi/settings.json {"extensionSettings": {"*": {"permissions": {"net": true, "exec": true}, "isolate": false}, "web.ts": {"permissions": {"env": false}}}}
        .pi/agent/extensions/plain.ts
        .pi/agent/extensions/web.ts
        .pi/agent/extensions/firm.ts
        .pi/agent/extensions/e.ts
        .pi/agent/extensions/gate/index.ts
        .pi/agent/npm/node_modules/@scope/pack/extensions/packed.ts
        tools/deep/t.ts
        "#,
    );
    check(
        &home,
        &["~/tools/deep/t.ts"],
        expect![[r#"
            cli temporary HOME/tools/deep/t.ts isolate -fs -net
            auto user HOME/.pi/agent/extensions/e.ts -env
            auto user HOME/.pi/agent/extensions/firm.ts -exec -net
            auto user HOME/.pi/agent/extensions/gate/index.ts isolate -net
            auto user HOME/.pi/agent/extensions/plain.ts -net
            auto user HOME/.pi/agent/extensions/web.ts -env
            npm:@scope/pack user HOME/.pi/agent/npm/node_modules/@scope/pack/extensions/packed.ts in HOME/.pi/agent/npm/node_modules/@scope/pack -exec -net -env"#]],
    );
}

#[test]
fn links_do_not_evade_permissions() {
    let home = Home::with(
        r#"
        .pi/agent/settings.json {"extensionSettings": {"firm.ts": {"permissions": {"exec": false}}, "~/tools": {"permissions": {"net": false}}, "~/alias": {"permissions": {"env": false}}, "gate": {"isolate": true}}}
        tools/firm.ts
        tools/gate/index.ts
        .pi/agent/extensions/plain.ts
        "#,
    );
    let extensions = home.path(".pi/agent/extensions");
    let link = |target: &str, name: &str| {
        std::os::unix::fs::symlink(home.path(target), extensions.join(name)).unwrap();
    };
    link("tools/firm.ts", "nice.ts");
    link("tools/gate/index.ts", "open.ts");
    std::os::unix::fs::symlink(home.path("tools"), home.path("alias")).unwrap();
    check(
        &home,
        &[],
        expect![[r#"
        auto user HOME/.pi/agent/extensions/nice.ts -exec -net -env
        auto user HOME/.pi/agent/extensions/open.ts isolate -net -env
        auto user HOME/.pi/agent/extensions/plain.ts"#]],
    );
}

/// A project may choose the engine if the user has not.
#[test]
fn engine_choice_of_the_user_takes_precedence() {
    let home = Home::with(
        r#"
        .pi/agent/settings.json {"extensionSettings": {"*.ts": {"engine": "node"}, "b.ts": {"engine": "embedded"}}}
        work/.pi/settings.json {"extensionSettings": {"b.ts": {"engine": "bun"}, "c.js": {"engine": "bun"}}}
        .pi/agent/extensions/a.ts
        .pi/agent/extensions/b.ts
        .pi/agent/extensions/c.js
        .pi/agent/extensions/d.js
        "#,
    );
    check(
        &home,
        &[],
        expect![[r#"
            auto user HOME/.pi/agent/extensions/a.ts Sidecar(Node)
            auto user HOME/.pi/agent/extensions/b.ts Embedded
            auto user HOME/.pi/agent/extensions/c.js Sidecar(Bun)
            auto user HOME/.pi/agent/extensions/d.js"#]],
    );
}

/// A file where a folder is expected is reported.
#[test]
fn file_in_place_of_a_folder_is_reported() {
    let home = Home::with(".pi/agent/extensions nothing");
    check(
        &home,
        &[],
        expect![
            "! Cannot read the extension folder HOME/.pi/agent/extensions: Not a directory (os error 20)"
        ],
    );
    let home = Home::with(
        r#".pi/agent/settings.json {"packages": ["npm:a", 3], "extensionSettings": {"x": {"permissions": {"net": "no"}}}}"#,
    );
    let said = home.project(None).problems().join("\n");
    let said = said.replace(&*Path::new(home.0.path()).to_string_lossy(), "HOME");
    expect![[r#"
        Invalid packages setting in HOME/.pi/agent/settings.json is ignored: expected the source of a package, or an object with a `source`
        Invalid extensionSettings.x.permissions.net setting in HOME/.pi/agent/settings.json is ignored: invalid type: string "no", expected a boolean"#]].assert_eq(&said);
}
