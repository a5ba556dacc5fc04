//! Folders as people have them, and what is found in them.

use std::path::{Path, PathBuf};

use expect_test::{Expect, expect};
use tempfile::TempDir;

use super::{Dirs, Project, ResourceFlags, Resources};

/// A home with an agent folder and a repository to work in.
struct Home {
    folder: TempDir,
}

impl Home {
    fn with(files: &[(&str, &str)]) -> Home {
        let folder = tempfile::tempdir().unwrap();
        let home = Home { folder };
        std::fs::create_dir_all(home.path("work")).unwrap();
        for (name, content) in files {
            let path = home.path(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn link(&self, name: &str, to: &str) {
        std::os::unix::fs::symlink(to, self.path(name)).unwrap();
    }

    fn place(&self, cwd: &str, flags: ResourceFlags) -> Project {
        let home = self.folder.path().to_owned();
        let agent_dir = home.join(".pi/agent");
        Project::find(Dirs { cwd: self.path(cwd), agent_dir, home: Some(home) }, flags)
    }

    fn trusted(&self, cwd: &str) -> Project {
        self.place(cwd, ResourceFlags { approve: Some(true), ..ResourceFlags::default() })
    }

    fn shown(&self, path: &Path) -> String {
        path.display().to_string().replace(&*self.folder.path().to_string_lossy(), "HOME")
    }

    /// Everything that was found, one line each.
    fn print(&self, place: &Project) -> String {
        let resources = place.resources();
        let Resources { context_files, skills, templates, problems, .. } = &resources;
        let mut lines = Vec::new();
        let inside =
            |file: &&super::context_files::ContextFile| file.path.starts_with(self.folder.path());
        for file in context_files.iter().filter(inside) {
            lines.push(format!("context {} {:?}", self.shown(&file.path), file.text));
        }
        for template in templates {
            lines.push(format!("template {} {}", template.name, self.shown(&template.path)));
        }
        for skill in skills {
            lines.push(format!("skill {} {}", skill.name, self.shown(&skill.path)));
        }
        for rule in resources.rules.standing.iter() {
            lines.push(format!("standing rule {} {}", rule.name, self.shown(&rule.path)));
        }
        for rule in resources.rules.listed.iter() {
            lines.push(format!("listed rule {} {}", rule.name, self.shown(&rule.path)));
        }
        if let Some(set) = &resources.rules.watching {
            lines.push(format!("watching {set:?}"));
        }
        for problem in place.problems().iter().chain(problems) {
            lines.push(format!("! {}", self.shown(Path::new(problem))));
        }
        lines.join("\n")
    }
}

const SKILL: &str = "---\ndescription: d\n---\n";

#[test]
fn instructions_come_from_the_general_to_the_particular() {
    let home = Home::with(&[
        (".pi/agent/CLAUDE.md", "agent"),
        ("AGENTS.md", "\u{feff}home"),
        ("work/CLAUDE.MD", "work"),
        ("work/a/AGENTS.md", ""),
        ("work/a/b/AGENTS.override.md", "override"),
        ("work/a/b/AGENTS.md", "plain"),
        ("work/a/b/c/AGENTS.md", "too deep"),
    ]);
    expect![[r#"
        context HOME/.pi/agent/CLAUDE.md "agent"
        context HOME/AGENTS.md "home"
        context HOME/work/CLAUDE.MD "work"
        context HOME/work/a/AGENTS.md ""
        context HOME/work/a/b/AGENTS.override.md "override""#]]
    .assert_eq(&home.print(&home.trusted("work/a/b")));
    let none = ResourceFlags { no_context_files: true, ..ResourceFlags::default() };
    expect![[""]].assert_eq(&home.print(&home.place("work/a/b", none)));
}

#[test]
fn a_file_is_read_once_by_whatever_name() {
    let home = Home::with(&[("work/AGENTS.md", "once"), ("work/a/x", "")]);
    home.link("work/a/AGENTS.md", "../AGENTS.md");
    expect![[r#"context HOME/work/AGENTS.md "once""#]]
        .assert_eq(&home.print(&home.trusted("work/a")));
    // Working inside the agent folder.
    let home = Home::with(&[(".pi/agent/AGENTS.md", "agent"), (".pi/agent/x/y", "")]);
    expect![[r#"context HOME/.pi/agent/AGENTS.md "agent""#]]
        .assert_eq(&home.print(&home.trusted(".pi/agent/x")));
}

#[test]
fn a_worktree_brings_its_own_copy() {
    let check = |own: &[(&str, &str)], expected: Expect| {
        let home = Home::with(&[
            ("work/.git/worktrees/fix/HEAD", ""),
            ("work/AGENTS.md", "main"),
            ("work/trees/AGENTS.md", "trees"),
            ("work/trees/fix/src/x", ""),
        ]);
        let git = format!("gitdir: {}\n", home.path("work/.git/worktrees/fix").display());
        std::fs::write(home.path("work/trees/fix/.git"), git).unwrap();
        for (name, content) in own {
            std::fs::write(home.path(name), content).unwrap();
        }
        expected.assert_eq(&home.print(&home.trusted("work/trees/fix/src")));
    };
    check(
        &[("work/trees/fix/AGENTS.md", "fix")],
        expect![[r#"
            context HOME/work/trees/AGENTS.md "trees"
            context HOME/work/trees/fix/AGENTS.md "fix""#]],
    );
    check(
        &[],
        expect![[r#"
            context HOME/work/AGENTS.md "main"
            context HOME/work/trees/AGENTS.md "trees""#]],
    );
}

#[test]
fn the_nearest_comes_first_and_what_was_named_last() {
    let home = Home::with(&[
        ("work/.git/HEAD", ""),
        ("work/.pi/skills/one/SKILL.md", SKILL),
        ("work/.pi/agent/skills/two/SKILL.md", SKILL),
        ("work/src/.agents/skills/three/SKILL.md", SKILL),
        ("work/.agents/skills/four/SKILL.md", SKILL),
        ("work/.agents/skills/loose.md", SKILL),
        (".agents/skills/five/SKILL.md", SKILL),
        (".pi/agent/skills/six/SKILL.md", SKILL),
        (".pi/agent/skills/four/SKILL.md", SKILL),
        ("more/seven.md", SKILL),
        ("more/eight/SKILL.md", SKILL),
        ("work/src/.pi/prompts/b.md", "b"),
        ("work/src/.pi/prompts/a.md", "a"),
        ("work/src/.pi/prompts/deeper/c.md", "c"),
        ("work/src/.pi/agent/prompts/d.md", "d"),
        (".pi/agent/prompts/a.md", "a"),
        (".pi/agent/prompts/e.md", "e"),
        ("more/f.md", "f"),
    ]);
    let named = |only: bool| ResourceFlags {
        approve: Some(true),
        skills: vec!["~/more".into(), "../../more/gone".into()],
        prompt_templates: vec!["../../more/f.md".into()],
        no_skills: only,
        no_prompt_templates: only,
        ..ResourceFlags::default()
    };
    expect![[r#"
        template a HOME/work/src/.pi/prompts/a.md
        template b HOME/work/src/.pi/prompts/b.md
        template d HOME/work/src/.pi/agent/prompts/d.md
        template e HOME/.pi/agent/prompts/e.md
        template f HOME/more/f.md
        skill three HOME/work/src/.agents/skills/three/SKILL.md
        skill four HOME/work/.agents/skills/four/SKILL.md
        skill six HOME/.pi/agent/skills/six/SKILL.md
        skill five HOME/.agents/skills/five/SKILL.md
        skill eight HOME/more/eight/SKILL.md
        skill seven HOME/more/seven.md
        ! no skill at HOME/more/gone: No such file or directory (os error 2)"#]]
    .assert_eq(&home.print(&home.place("work/src", named(false))));
    expect![[r#"
        template f HOME/more/f.md
        skill eight HOME/more/eight/SKILL.md
        skill seven HOME/more/seven.md
        ! no skill at HOME/more/gone: No such file or directory (os error 2)"#]]
    .assert_eq(&home.print(&home.place("work/src", named(true))));
    let some = ResourceFlags { skill_names: Some(vec!["f*".into()]), ..named(false) };
    let found = home.print(&home.place("work", some));
    let skills: Vec<&str> = found.lines().filter(|line| line.starts_with("skill")).collect();
    assert_eq!(
        skills,
        [
            "skill four HOME/work/.agents/skills/four/SKILL.md",
            "skill five HOME/.agents/skills/five/SKILL.md",
        ]
    );
}

/// However links lead back and forth, every skill is found once.
#[test]
fn circles_of_links_end() {
    let home = Home::with(&[
        (".pi/agent/skills/a/one/SKILL.md", SKILL),
        (".pi/agent/skills/b/two/SKILL.md", SKILL),
    ]);
    for n in 0..8 {
        home.link(&format!(".pi/agent/skills/a/to-b{n}"), "../b");
        home.link(&format!(".pi/agent/skills/b/to-a{n}"), "../a");
        home.link(&format!(".pi/agent/skills/a/up{n}"), "../..");
    }
    home.link(".pi/agent/skills/self", "self");
    home.link(".pi/agent/prompts", "skills");
    expect![[r#"
        skill one HOME/.pi/agent/skills/a/one/SKILL.md
        skill two HOME/.pi/agent/skills/a/to-b0/two/SKILL.md
        ! HOME/.pi/agent/skills/a/up0 is ignored: it leads back to where it is
        ! HOME/.pi/agent/skills/a/up1 is ignored: it leads back to where it is
        ! HOME/.pi/agent/skills/a/up2 is ignored: it leads back to where it is
        ! HOME/.pi/agent/skills/a/up3 is ignored: it leads back to where it is
        ! HOME/.pi/agent/skills/a/up4 is ignored: it leads back to where it is
        ! HOME/.pi/agent/skills/a/up5 is ignored: it leads back to where it is
        ! HOME/.pi/agent/skills/a/up6 is ignored: it leads back to where it is
        ! HOME/.pi/agent/skills/a/up7 is ignored: it leads back to where it is
        ! HOME/.pi/agent/skills/self is ignored: Too many levels of symbolic links (os error 40)"#]]
    .assert_eq(&home.print(&home.trusted("work")));
}

#[test]
fn a_decision_about_the_nearest_folder_counts() {
    let is_used = |decisions: &str, settings: &str, flag: Option<bool>| {
        let home = Home::with(&[
            ("work/repo/.pi/prompts/x.md", "x"),
            (".pi/agent/settings.json", settings),
        ]);
        let decisions = decisions.replace("HOME", &home.folder.path().to_string_lossy());
        std::fs::write(home.path(".pi/agent/trust.json"), decisions).unwrap();
        let place =
            home.place("work/repo", ResourceFlags { approve: flag, ..ResourceFlags::default() });
        let used = !place.resources().templates.is_empty();
        assert_eq!(used, place.problems().is_empty(), "{:?}", place.problems());
        used
    };
    assert!(!is_used("{}", "{}", None));
    assert!(is_used("{}", "{}", Some(true)));
    assert!(is_used(r#"{"HOME/work/repo": true}"#, "{}", None));
    assert!(!is_used(r#"{"HOME/work/repo": true}"#, "{}", Some(false)));
    assert!(is_used(r#"{"HOME": false, "HOME/work": true}"#, "{}", None));
    assert!(!is_used(r#"{"HOME": true, "HOME/work": false}"#, "{}", None));
    assert!(is_used(r#"{"HOME/work": null, "HOME": true}"#, "{}", None));
    assert!(is_used("{}", r#"{"defaultProjectTrust": "always"}"#, None));
    assert!(!is_used("{}", r#"{"defaultProjectTrust": "ask"}"#, None));
    assert!(!is_used(r#"{"HOME/work": false}"#, r#"{"defaultProjectTrust": "always"}"#, None));
}

#[test]
fn an_approval_is_for_the_folder_that_tiller_was_started_in() {
    let home = Home::with(&[
        ("mine/.pi/prompts/x.md", "x"),
        ("theirs/.pi/prompts/y.md", "y"),
        ("decided/.pi/prompts/z.md", "z"),
    ]);
    let decisions = format!("{{\"{}\": true}}", home.path("decided").display());
    std::fs::create_dir_all(home.path(".pi/agent")).unwrap();
    std::fs::write(home.path(".pi/agent/trust.json"), decisions).unwrap();
    std::os::unix::fs::symlink("mine", home.path("link")).unwrap();
    let approved =
        home.place("mine", ResourceFlags { approve: Some(true), ..ResourceFlags::default() });
    let refused =
        home.place("mine", ResourceFlags { approve: Some(false), ..ResourceFlags::default() });
    for (folder, when_approved) in
        [("mine", true), ("theirs", false), ("decided", true), ("link", true)]
    {
        let there = approved.again(home.path(folder));
        assert_eq!(there.is_trusted(), when_approved, "{folder}");
        assert_eq!(there.asks_for_trust(), ["theirs", "decided"].contains(&folder), "{folder}");
        assert!(there.again(home.path("mine")).is_trusted(), "back from {folder}");
        assert!(!refused.again(home.path(folder)).is_trusted(), "{folder}");
    }
    let problems = approved.again(home.path("theirs")).problems().join("\n");
    assert!(problems.contains("start it there"), "{problems}");
}

#[test]
fn nothing_is_said_about_trust_where_there_is_nothing_to_trust() {
    let home = Home::with(&[
        ("work/AGENTS.md", "words"),
        ("work/.pi/notes", ""),
        (".agents/skills/mine/SKILL.md", SKILL),
        (".pi/agent/prompts/mine.md", "mine"),
    ]);
    assert_eq!(home.place("work", ResourceFlags::default()).problems(), [""; 0]);
    // In the home itself, `.pi/agent` and `.agents` are the user's own.
    let place = home.place("", ResourceFlags::default());
    assert_eq!(place.problems(), [""; 0]);
    assert_eq!(place.resources().skills.len(), 1);
    assert_eq!(place.resources().templates.len(), 1);
}

#[test]
fn a_project_that_is_not_trusted_does_not_choose_where_sessions_are() {
    let home =
        Home::with(&[("work/.pi/settings.json", r#"{"sessionDir": "kept", "defaultModel": "m"}"#)]);
    let refused = ResourceFlags { approve: Some(false), ..ResourceFlags::default() };
    for flags in [ResourceFlags::default(), refused] {
        let settings = home.place("work", flags).settings();
        assert_eq!((settings.session_dir, settings.default_model), (None, None));
    }
    let settings = home.trusted("work").settings();
    assert_eq!(settings.session_dir, Some(home.path("work/kept")));
    assert_eq!(settings.default_model.as_deref(), Some("m"));
}

#[test]
fn a_prompt_is_a_text_or_a_file() {
    let home = Home::with(&[("work/words.md", "from a file\n"), ("work/.pi/SYSTEM.md", "project")]);
    let system = |given: &str| {
        let flags = ResourceFlags {
            system_prompt: Some(given.to_owned()),
            append_system_prompt: vec!["words.md".into(), "and more".into()],
            approve: Some(true),
            ..ResourceFlags::default()
        };
        let resources = home.place("work", flags).resources();
        assert_eq!(resources.addendum.as_deref(), Some("from a file\n\n\nand more"));
        resources.system_prompt.unwrap()
    };
    assert_eq!(system("words.md"), "from a file\n");
    assert_eq!(system("words.txt"), "words.txt");
    assert_eq!(system(""), "");
    let long = "word ".repeat(10_000);
    assert_eq!(system(&long), long);
}

/// xcsh's hosts rely on the usual todos in RPC mode.
#[test]
fn todos_are_as_usual_for_hosts_of_xcsh() {
    let home = Home::with(&[(".pi/agent/settings.json", r#"{"todo": {"eager": false}}"#)]);
    let eager = |usual_todos| {
        let flags = ResourceFlags { usual_todos, ..ResourceFlags::default() };
        home.place("work", flags).settings().todo.eager
    };
    assert!(eager(true) && !eager(false));
}

#[test]
fn rules_of_the_project_come_first_and_only_with_trust() {
    let watching = "---\ncondition: x\n---\n";
    let home = Home::with(&[
        ("work/.pi/rules/one.md", watching),
        ("work/.pi/agent/rules/two.mdc", watching),
        ("work/.xcsh/rules/three.md", watching),
        ("work/.xcsh/rules/one.md", watching),
        ("work/.pi/rules/notes.txt", watching),
        ("work/.pi/rules/deep/four.md", watching),
        (".pi/agent/rules/five.md", watching),
        (".pi/agent/rules/always.md", "---\nalwaysApply: true\n---\n"),
        (".xcsh/agent/rules/six.md", "---\ndescription: d\n---\n"),
        (".xcsh/agent/rules/five.md", watching),
    ]);
    expect![[r#"
        standing rule always HOME/.pi/agent/rules/always.md
        listed rule six HOME/.xcsh/agent/rules/six.md
        watching ["one", "two", "three", "five"]
        ! rule HOME/work/.xcsh/rules/one.md is hidden by HOME/work/.pi/rules/one.md
        ! rule HOME/.xcsh/agent/rules/five.md is hidden by HOME/.pi/agent/rules/five.md"#]]
    .assert_eq(&home.print(&home.trusted("work")));
    expect![[r#"
        standing rule always HOME/.pi/agent/rules/always.md
        listed rule six HOME/.xcsh/agent/rules/six.md
        watching ["five"]
        ! Not used because this project is not trusted: .pi/rules, .pi/agent/rules, .xcsh/rules. Start with --approve, or add "HOME/work": true to HOME/.pi/agent/trust.json
        ! rule HOME/.xcsh/agent/rules/five.md is hidden by HOME/.pi/agent/rules/five.md"#]].assert_eq(&home.print(&home.place("work", ResourceFlags::default())));
    let none = ResourceFlags { approve: Some(true), no_rules: true, ..ResourceFlags::default() };
    expect![[""]].assert_eq(&home.print(&home.place("work", none)));
}
