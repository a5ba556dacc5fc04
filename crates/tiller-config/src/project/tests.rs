//! Realistic folders, and the resources found in them.

use std::path::{Path, PathBuf};

use expect_test::{Expect, expect};
use tempfile::TempDir;

use super::{Dirs, Project, ResourceFlags, Resources};

/// A home folder with an agent folder and a repository.
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

    fn project(&self, cwd: &str, flags: ResourceFlags) -> Project {
        let home = self.folder.path().to_owned();
        let agent_dir = home.join(".pi/agent");
        Project::find(Dirs { cwd: self.path(cwd), agent_dir, home: Some(home) }, flags)
    }

    fn trusted(&self, cwd: &str) -> Project {
        self.project(cwd, ResourceFlags { approve: Some(true), ..ResourceFlags::default() })
    }

    fn shown(&self, path: &Path) -> String {
        path.display().to_string().replace(&*self.folder.path().to_string_lossy(), "HOME")
    }

    /// All resources, one line each.
    fn print(&self, project: &Project) -> String {
        let resources = project.resources();
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
        for problem in project.problems().iter().chain(problems) {
            lines.push(format!("! {}", self.shown(Path::new(problem))));
        }
        lines.join("\n")
    }
}

const SKILL: &str = "---\ndescription: d\n---\n";

#[test]
fn context_files_are_ordered_from_general_to_specific() {
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
    expect![[""]].assert_eq(&home.print(&home.project("work/a/b", none)));
}

#[test]
fn file_behind_several_links_is_read_once() {
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
fn nested_worktree_uses_its_own_context_files() {
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
fn nearest_resource_wins_and_named_ones_come_last() {
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
        ! cannot read skill HOME/more/gone: No such file or directory (os error 2)"#]]
    .assert_eq(&home.print(&home.project("work/src", named(false))));
    expect![[r#"
        template f HOME/more/f.md
        skill eight HOME/more/eight/SKILL.md
        skill seven HOME/more/seven.md
        ! cannot read skill HOME/more/gone: No such file or directory (os error 2)"#]]
    .assert_eq(&home.print(&home.project("work/src", named(true))));
    let some = ResourceFlags { skill_names: Some(vec!["f*".into()]), ..named(false) };
    let found = home.print(&home.project("work", some));
    let skills: Vec<&str> = found.lines().filter(|line| line.starts_with("skill")).collect();
    assert_eq!(
        skills,
        [
            "skill four HOME/work/.agents/skills/four/SKILL.md",
            "skill five HOME/.agents/skills/five/SKILL.md",
        ]
    );
}

/// Links form cycles, and every skill is found once.
#[test]
fn cyclic_links_find_every_skill_once() {
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
        ! HOME/.pi/agent/skills/a/up0 is ignored: the link leads to a parent folder
        ! HOME/.pi/agent/skills/a/up1 is ignored: the link leads to a parent folder
        ! HOME/.pi/agent/skills/a/up2 is ignored: the link leads to a parent folder
        ! HOME/.pi/agent/skills/a/up3 is ignored: the link leads to a parent folder
        ! HOME/.pi/agent/skills/a/up4 is ignored: the link leads to a parent folder
        ! HOME/.pi/agent/skills/a/up5 is ignored: the link leads to a parent folder
        ! HOME/.pi/agent/skills/a/up6 is ignored: the link leads to a parent folder
        ! HOME/.pi/agent/skills/a/up7 is ignored: the link leads to a parent folder
        ! HOME/.pi/agent/skills/self is ignored: Too many levels of symbolic links (os error 40)"#]]
    .assert_eq(&home.print(&home.trusted("work")));
}

#[test]
fn trust_decision_of_the_nearest_folder_counts() {
    let is_used = |decisions: &str, settings: &str, flag: Option<bool>| {
        let home = Home::with(&[
            ("work/repo/.pi/prompts/x.md", "x"),
            (".pi/agent/settings.json", settings),
        ]);
        let decisions = decisions.replace("HOME", &home.folder.path().to_string_lossy());
        std::fs::write(home.path(".pi/agent/trust.json"), decisions).unwrap();
        let project =
            home.project("work/repo", ResourceFlags { approve: flag, ..ResourceFlags::default() });
        let used = !project.resources().templates.is_empty();
        assert_eq!(used, project.problems().is_empty(), "{:?}", project.problems());
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
fn approve_flag_counts_for_the_start_folder_only() {
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
        home.project("mine", ResourceFlags { approve: Some(true), ..ResourceFlags::default() });
    let refused =
        home.project("mine", ResourceFlags { approve: Some(false), ..ResourceFlags::default() });
    for (folder, when_approved) in
        [("mine", true), ("theirs", false), ("decided", true), ("link", true)]
    {
        let there = approved.reread(home.path(folder));
        assert_eq!(there.is_trusted(), when_approved, "{folder}");
        assert_eq!(
            there.needs_trust_decision(),
            ["theirs", "decided"].contains(&folder),
            "{folder}"
        );
        assert!(there.reread(home.path("mine")).is_trusted(), "back from {folder}");
        assert!(!refused.reread(home.path(folder)).is_trusted(), "{folder}");
    }
    let problems = approved.reread(home.path("theirs")).problems().join("\n");
    assert!(problems.contains("start it there"), "{problems}");
}

#[test]
fn no_trust_diagnostic_without_files_that_need_trust() {
    let home = Home::with(&[
        ("work/AGENTS.md", "words"),
        ("work/.pi/notes", ""),
        (".agents/skills/mine/SKILL.md", SKILL),
        (".pi/agent/prompts/mine.md", "mine"),
    ]);
    assert_eq!(home.project("work", ResourceFlags::default()).problems(), [""; 0]);
    // In the home folder itself, `.pi/agent` and `.agents` belong to the user.
    let project = home.project("", ResourceFlags::default());
    assert_eq!(project.problems(), [""; 0]);
    assert_eq!(project.resources().skills.len(), 1);
    assert_eq!(project.resources().templates.len(), 1);
}

#[test]
fn untrusted_project_cannot_set_session_dir() {
    let home =
        Home::with(&[("work/.pi/settings.json", r#"{"sessionDir": "kept", "defaultModel": "m"}"#)]);
    let refused = ResourceFlags { approve: Some(false), ..ResourceFlags::default() };
    for flags in [ResourceFlags::default(), refused] {
        let settings = home.project("work", flags).settings();
        assert_eq!((settings.session_dir, settings.default_model), (None, None));
    }
    let settings = home.trusted("work").settings();
    assert_eq!(settings.session_dir, Some(home.path("work/kept")));
    assert_eq!(settings.default_model.as_deref(), Some("m"));
}

#[test]
fn system_prompt_is_a_text_or_a_file() {
    let home = Home::with(&[("work/words.md", "from a file\n"), ("work/.pi/SYSTEM.md", "project")]);
    let system = |given: &str| {
        let flags = ResourceFlags {
            system_prompt: Some(given.to_owned()),
            append_system_prompt: vec!["words.md".into(), "and more".into()],
            approve: Some(true),
            ..ResourceFlags::default()
        };
        let resources = home.project("work", flags).resources();
        assert_eq!(resources.addendum.as_deref(), Some("from a file\n\n\nand more"));
        resources.system_prompt.unwrap()
    };
    assert_eq!(system("words.md"), "from a file\n");
    assert_eq!(system("words.txt"), "words.txt");
    assert_eq!(system(""), "");
    let long = "word ".repeat(10_000);
    assert_eq!(system(&long), long);
}

/// xcsh's hosts rely on the default todo settings in RPC mode.
#[test]
fn xcsh_hosts_get_default_todo_settings() {
    let home = Home::with(&[(".pi/agent/settings.json", r#"{"todo": {"eager": false}}"#)]);
    let eager = |default_todos| {
        let flags = ResourceFlags { default_todos, ..ResourceFlags::default() };
        home.project("work", flags).settings().todo.eager
    };
    assert!(eager(true) && !eager(false));
}

#[test]
fn project_rules_come_first_and_need_trust() {
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
        ! rule HOME/work/.xcsh/rules/one.md is overridden by HOME/work/.pi/rules/one.md
        ! rule HOME/.xcsh/agent/rules/five.md is overridden by HOME/.pi/agent/rules/five.md"#]]
    .assert_eq(&home.print(&home.trusted("work")));
    expect![[r#"
        standing rule always HOME/.pi/agent/rules/always.md
        listed rule six HOME/.xcsh/agent/rules/six.md
        watching ["five"]
        ! Not used because this project is not trusted: .pi/rules, .pi/agent/rules, .xcsh/rules. Start with --approve, or add "HOME/work": true to HOME/.pi/agent/trust.json
        ! rule HOME/.xcsh/agent/rules/five.md is overridden by HOME/.pi/agent/rules/five.md"#]].assert_eq(&home.print(&home.project("work", ResourceFlags::default())));
    let none = ResourceFlags { approve: Some(true), no_rules: true, ..ResourceFlags::default() };
    expect![[""]].assert_eq(&home.print(&home.project("work", none)));
}
