//! The project: the user's and the project's own files that configure tiller.
//!
//! [`Project::find`] reads settings and trust at start-up, two or three small files. The rest,
//! [`Resources`], is read once, when the first prompt needs it, and again when a client sends
//! `reload`. No file can keep tiller from starting: every problem becomes a diagnostic that names
//! the file.

mod trust;
mod context_files;
mod source;
mod skills;
mod skill_files;
mod templates;
mod rules;
mod arguments;
mod resources;
pub mod text_file;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use context_files::ContextFile;
pub use resources::Resources;
pub use rules::RuleFiles;
pub use skills::Skill;
pub use source::{ResourceOrigin, SourceInfo};
pub use templates::Template;
use tiller_agent::approvals::{ApprovalMode, RuleBases, Rules};
use trust::TrustInputs;

use crate::settings::{Layers, PathBases, PermissionSettings, Scope, Settings, read_file, resolve};

/// The folders, the flags of the command line, and the resulting settings and trust.
#[derive(Clone)]
pub struct Project {
    dirs: Dirs,
    flags: Arc<ResourceFlags>,
    layers: Layers,
    is_trusted: bool,
    /// The folder that `--approve` was given for.
    started_in: Arc<PathBuf>,
    /// An extension's decision about this folder.
    extension_decision: Option<bool>,
    /// Further paths that extensions have named.
    discovered: Arc<ExtensionPaths>,
    /// The rules of `permissions`.
    rules: Arc<Rules>,
    /// Problems in settings and trust.
    problems: Vec<String>,
}

/// Files and folders named by extensions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExtensionPaths {
    pub skills: Vec<DiscoveredPath>,
    pub templates: Vec<DiscoveredPath>,
}

/// A file or folder that an extension names.
#[derive(Clone, Debug, PartialEq)]
pub struct DiscoveredPath {
    pub path: PathBuf,
    /// The extension's file.
    pub extension: PathBuf,
}

/// The folders that files are searched in.
#[derive(Clone, Debug)]
pub struct Dirs {
    pub cwd: PathBuf,
    /// The user's agent folder.
    pub agent_dir: PathBuf,
    pub home: Option<PathBuf>,
}

/// Resource flags of the command line.
#[derive(Clone, Debug, Default)]
pub struct ResourceFlags {
    /// Whether the project is trusted, if set. `true` counts only for the folder that tiller was
    /// started in, `false` for every folder.
    pub approve: Option<bool>,
    pub no_context_files: bool,
    pub no_skills: bool,
    pub no_prompt_templates: bool,
    pub no_rules: bool,
    /// No MCP server is read or started.
    pub no_mcp: bool,
    /// A further file with MCP servers.
    pub mcp_config: Option<PathBuf>,
    pub skills: Vec<String>,
    /// Patterns of the skills to load; all if empty.
    pub skill_names: Option<Vec<String>>,
    pub prompt_templates: Vec<String>,
    /// A text, or the path of a file with one.
    pub system_prompt: Option<String>,
    pub append_system_prompt: Vec<String>,
    /// `--models` was given, so `enabledModels` is ignored.
    pub own_models: bool,
    /// xcsh's RPC mode uses the defaults for todos, whatever the user has set.
    pub default_todos: bool,
    /// Which tool calls need an approval, in place of the user's setting.
    pub approvals: Option<ApprovalMode>,
    /// Prints problems in files that are read later, for the user who started tiller.
    pub print: Option<fn(&str)>,
}

impl Project {
    /// Reads the settings and decides whether the project's count.
    pub fn find(dirs: Dirs, flags: ResourceFlags) -> Project {
        let started_in = Arc::new(dirs.cwd.clone());
        Project::read(dirs, Arc::new(flags), started_in, None)
    }

    fn read(
        dirs: Dirs,
        flags: Arc<ResourceFlags>,
        started_in: Arc<PathBuf>,
        extension_decision: Option<bool>,
    ) -> Project {
        let mut problems = Vec::new();
        let user = read_file(&dirs.agent_dir.join("settings.json"), &mut problems);
        let default = Layers { user: user.clone(), ..Layers::default() }.settings();
        let flag = approval(&flags, &started_in, &dirs.cwd);
        let is_elsewhere = flag != flags.approve;
        let inputs =
            TrustInputs { flag, extension: extension_decision, approved_elsewhere: is_elsewhere };
        let is_trusted =
            trust::is_trusted(&dirs, inputs, default.default_project_trust, &mut problems);
        // An untrusted project decides nothing, not even where its sessions are stored.
        let project = if is_trusted {
            read_file(&dirs.project_dir().join("settings.json"), &mut problems)
        } else {
            Default::default()
        };
        let layers = Layers { user, project };
        let discovered = Arc::default();
        let rules = Arc::new(permission_rules(&dirs, &layers, &mut problems));
        Project {
            dirs,
            flags,
            layers,
            is_trusted,
            started_in,
            extension_decision,
            discovered,
            rules,
            problems,
        }
    }

    /// Reads the same project again, or another folder with the same flags.
    pub fn reread(&self, cwd: PathBuf) -> Project {
        let extension_decision = self.extension_decision.filter(|_| cwd == self.dirs.cwd);
        let dirs = Dirs { cwd, ..self.dirs.clone() };
        let (flags, started_in) = (self.flags.clone(), self.started_in.clone());
        let discovered = self.discovered.clone();
        Project { discovered, ..Project::read(dirs, flags, started_in, extension_decision) }
    }

    /// Whether extensions may decide if the project is trusted: the command line has not, and some
    /// files depend on it.
    pub fn needs_trust_decision(&self) -> bool {
        let flag = approval(&self.flags, &self.started_in, &self.dirs.cwd);
        flag.is_none() && trust::is_needed(&self.dirs)
    }

    /// Sets an extension's trust decision, and stores it if `remember` is set. Takes effect with
    /// [`reread`](Project::reread).
    pub fn with_trust_decision(mut self, trusted: bool, remember: bool) -> Project {
        self.extension_decision = Some(trusted);
        if remember && let Err(problem) = trust::remember(&self.dirs, trusted) {
            self.print_problems([problem].iter());
        }
        self
    }

    /// Sets the paths named by extensions. Returns whether they are new.
    pub fn set_discovered(&mut self, discovered: ExtensionPaths) -> bool {
        let is_news = *self.discovered != discovered;
        if is_news {
            self.discovered = Arc::new(discovered);
        }
        is_news
    }

    /// The paths named by extensions.
    pub fn discovered(&self) -> &Arc<ExtensionPaths> {
        &self.discovered
    }

    /// Problems in settings and trust. Not fatal, but shown to the user.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Whether the command line selects the models to cycle through.
    pub fn has_own_models(&self) -> bool {
        self.flags.own_models
    }

    /// The settings of both files, with absolute paths.
    pub fn settings(&self) -> Settings {
        let mut settings = self.layers.settings();
        let Dirs { cwd, home, .. } = &self.dirs;
        let absolute = |dir: PathBuf| resolve(&dir.to_string_lossy(), cwd, home.as_deref());
        settings.session_dir = settings.session_dir.map(absolute);
        // A project must not send the user's conversations to a database of its own.
        settings.store = self.layers.value(Scope::User, "store");
        if let Some(mode) = self.flags.approvals {
            settings.approvals = mode.max(self.layers.value(Scope::Project, "approvals"));
        }
        if self.flags.default_todos {
            settings.todo = Default::default();
        }
        settings
    }

    /// The rules of `permissions`.
    pub fn rules(&self) -> &Arc<Rules> {
        &self.rules
    }

    /// The project's folder.
    pub fn cwd(&self) -> &Path {
        &self.dirs.cwd
    }

    /// The folders that files are searched in.
    pub fn dirs(&self) -> &Dirs {
        &self.dirs
    }

    /// The settings of each file. The project's are empty if it is not trusted.
    pub fn layers(&self) -> &Layers {
        &self.layers
    }

    /// Whether the project's own files count.
    pub fn is_trusted(&self) -> bool {
        self.is_trusted
    }

    /// The file of `--mcp-config`. It is relative to the folder that tiller was started in.
    pub(crate) fn mcp_config(&self) -> Option<PathBuf> {
        self.flags.mcp_config.as_ref().map(|path| self.started_in.join(path))
    }

    /// Reads everything that shapes a prompt.
    pub fn resources(&self) -> Resources {
        Resources::read(self)
    }

    /// Prints problems for the user, if a printer is set.
    pub fn print_problems<'a>(&self, problems: impl Iterator<Item = &'a String>) {
        problems.for_each(|problem| self.print(&format!("Warning: {problem}")));
    }

    /// Prints a text for the user, if a printer is set.
    pub fn print(&self, text: &str) {
        if let Some(print) = self.flags.print {
            print(text);
        }
    }

    fn skill_roots(&self) -> Vec<ResourceOrigin> {
        let (flags, dirs) = (&self.flags, &self.dirs);
        let mut shared: Vec<ResourceOrigin> = Vec::new();
        for dir in dirs.shared_skill_dirs() {
            let base = dir.parent().unwrap_or(&dir).to_owned();
            shared.push(ResourceOrigin::shared(Scope::Project, base));
        }
        let home = dirs.home.as_ref().map(|home| home.join(".agents"));
        let shared_by_all =
            home.into_iter().map(|base| ResourceOrigin::shared(Scope::User, base)).collect();
        let mut roots = self.roots("skills", flags.no_skills, &flags.skills, shared, shared_by_all);
        roots.extend(self.discovered.skills.iter().map(ResourceOrigin::discovered));
        roots
    }

    fn template_roots(&self) -> Vec<ResourceOrigin> {
        let flags = &self.flags;
        let typed = &flags.prompt_templates;
        let only_named = flags.no_prompt_templates;
        let mut roots = self.roots("prompts", only_named, typed, Vec::new(), Vec::new());
        roots.extend(self.discovered.templates.iter().map(ResourceOrigin::discovered));
        roots
    }

    /// Folders with rules: ours and xcsh's, the project's first.
    fn rule_roots(&self) -> Vec<ResourceOrigin> {
        let Dirs { cwd, agent_dir, home } = &self.dirs;
        let project_dir = self.dirs.project_dir();
        let mut roots = Vec::new();
        if self.flags.no_rules {
            return roots;
        }
        if self.is_trusted {
            roots.push(ResourceOrigin::default_folder(
                Scope::Project,
                project_dir.clone(),
                "rules",
            ));
            let inner = project_dir.join("agent");
            if inner != *agent_dir {
                roots.push(ResourceOrigin::default_folder(Scope::Project, inner, "rules"));
            }
            roots.push(ResourceOrigin::default_folder(Scope::Project, cwd.join(".xcsh"), "rules"));
        }
        roots.push(ResourceOrigin::default_folder(Scope::User, agent_dir.clone(), "rules"));
        let xcsh_dir = home.as_ref().map(|home| home.join(".xcsh/agent"));
        roots.extend(
            xcsh_dir.map(|base| ResourceOrigin::default_folder(Scope::User, base, "rules")),
        );
        roots
    }

    /// The roots of one kind of resource, the most specific first. Those named on the command line
    /// come last, and are the only ones if a flag says so.
    fn roots(
        &self,
        kind: &str,
        only_named: bool,
        named: &[String],
        project_shared: Vec<ResourceOrigin>,
        user_shared: Vec<ResourceOrigin>,
    ) -> Vec<ResourceOrigin> {
        let Dirs { cwd, agent_dir, home } = &self.dirs;
        let project_dir = self.dirs.project_dir();
        let mut roots = Vec::new();
        if !only_named {
            let bases = PathBases { project: &project_dir, user: agent_dir, home: home.as_deref() };
            let listed = self.layers.listed(kind, &bases);
            let listed_in = |scope: Scope| {
                let of_scope = listed.iter().filter(move |listed| listed.scope == scope);
                of_scope.map(move |listed| ResourceOrigin::named(scope, listed.path.clone()))
            };
            if self.is_trusted {
                roots.extend(listed_in(Scope::Project));
                roots.push(ResourceOrigin::default_folder(
                    Scope::Project,
                    project_dir.clone(),
                    kind,
                ));
                let inner = project_dir.join("agent");
                if inner != *agent_dir {
                    roots.push(ResourceOrigin::default_folder(Scope::Project, inner, kind));
                }
                roots.extend(project_shared);
            }
            roots.extend(listed_in(Scope::User));
            roots.push(ResourceOrigin::default_folder(Scope::User, agent_dir.clone(), kind));
            roots.extend(user_shared);
        }
        let named = named.iter().map(|path| resolve(path, cwd, home.as_deref()));
        roots.extend(named.map(|path| ResourceOrigin::named(Scope::Process, path)));
        roots
    }
}

/// The rules of both files. What a project would allow is reported.
fn permission_rules(dirs: &Dirs, layers: &Layers, problems: &mut Vec<String>) -> Rules {
    let of_project: PermissionSettings = layers.value(Scope::Project, "permissions");
    if !of_project.allow.is_empty() {
        let path = dirs.project_dir().join("settings.json");
        problems.push(format!(
            "permissions.allow in {} is ignored: a project cannot allow tool calls",
            path.display()
        ));
    }
    let PermissionSettings { allow, ask, deny, .. } = layers.permissions();
    if allow.is_empty() && ask.is_empty() && deny.is_empty() {
        return Rules::default();
    }
    let cwd = std::fs::canonicalize(&dirs.cwd).unwrap_or_else(|_| dirs.cwd.clone());
    let bases = RuleBases { cwd: &cwd, home: dirs.home.as_deref() };
    Rules::read(&allow, &ask, &deny, bases, problems)
}

/// The trust flag for this folder: an approval counts for the folder that tiller was started in, a
/// refusal for all folders.
fn approval(flags: &ResourceFlags, started_in: &Path, cwd: &Path) -> Option<bool> {
    let is_same = || {
        let real = |path: &Path| std::fs::canonicalize(path).ok();
        cwd == started_in || real(cwd).is_some_and(|cwd| Some(cwd) == real(started_in))
    };
    flags.approve.filter(|approved| !approved || is_same())
}

impl Dirs {
    /// The project's folder of configuration.
    pub fn project_dir(&self) -> PathBuf {
        self.cwd.join(".pi")
    }

    /// The folders with skills that a project shares with other programs: in the working directory
    /// and its parents, up to the root of the repository. Those in the home folder are the user's.
    fn shared_skill_dirs(&self) -> Vec<PathBuf> {
        let mut dirs = Vec::new();
        for folder in self.cwd.ancestors() {
            if self.home.as_deref() != Some(folder) {
                dirs.push(folder.join(".agents/skills"));
            }
            if folder.join(".git").exists() {
                break;
            }
        }
        dirs.retain(|dir| dir.is_dir());
        dirs
    }
}
