//! The place tiller works in: the user's and the project's own files that change how it works.
//!
//! Which files there are is decided at the start ([`Place::find`]: settings and trust, two or
//! three small files). The rest, [`Resources`], is read when the first prompt needs it, once, and
//! again when a client says `reload`. Nothing that is found can keep tiller from starting: what
//! is wrong becomes a sentence that names the file.

mod trust;
mod context_files;
mod source;
mod front_matter;
mod skills;
mod skill_files;
mod templates;
mod rules;
mod arguments;
mod resources;
pub(crate) mod text_file;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) use context_files::ContextFile;
pub(crate) use resources::Resources;
pub(crate) use rules::RuleFiles;
pub(crate) use skills::Skill;
pub(crate) use source::{ResourceOrigin, SourceInfo};
use trust::TrustInputs;

use crate::settings::{Layers, Places, Scope, Settings, read_file, resolve};

/// Where to look, what the command line says about it, and what settings and trust came of it.
#[derive(Clone)]
pub struct Project {
    whereabouts: Dirs,
    flags: Arc<ResourceFlags>,
    layers: Layers,
    is_trusted: bool,
    /// The folder that `--approve` was given for.
    started_in: Arc<PathBuf>,
    /// What an extension has decided about this folder.
    verdict: Option<bool>,
    /// Where extensions say that there is more.
    discovered: Arc<ExtensionPaths>,
    /// What is wrong with settings and trust.
    problems: Vec<String>,
}

/// Files and folders that extensions name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExtensionPaths {
    pub(crate) skills: Vec<DiscoveredPath>,
    pub(crate) templates: Vec<DiscoveredPath>,
}

/// A file or folder that an extension names.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DiscoveredPath {
    pub(crate) path: PathBuf,
    /// The extension's file.
    pub(crate) extension: PathBuf,
}

/// The folders that matter.
#[derive(Clone, Debug)]
pub struct Dirs {
    pub cwd: PathBuf,
    /// Where the user keeps what is theirs.
    pub agent_dir: PathBuf,
    pub home: Option<PathBuf>,
}

/// What the command line says about files.
#[derive(Clone, Debug, Default)]
pub struct ResourceFlags {
    /// Whether the project is trusted, if the command line says. `true` counts only for the folder
    /// that tiller was started in, `false` for every folder.
    pub approve: Option<bool>,
    pub no_context_files: bool,
    pub no_skills: bool,
    pub no_prompt_templates: bool,
    pub no_rules: bool,
    pub skills: Vec<String>,
    /// Patterns of the skills that count; all of them if there are none.
    pub skill_names: Option<Vec<String>>,
    pub prompt_templates: Vec<String>,
    /// A text, or the name of a file with one.
    pub system_prompt: Option<String>,
    pub append_system_prompt: Vec<String>,
    /// `--models` was given, and `enabledModels` is not asked.
    pub own_models: bool,
    /// xcsh's RPC mode takes the defaults for todos whatever the user has set.
    pub usual_todos: bool,
    /// How the person who started tiller is told what is wrong with files that are read later.
    pub complain: Option<fn(&str)>,
}

impl Project {
    /// Reads the settings there are and decides whether the project's count.
    pub fn find(whereabouts: Dirs, flags: ResourceFlags) -> Project {
        let started_in = Arc::new(whereabouts.cwd.clone());
        Project::read(whereabouts, Arc::new(flags), started_in, None)
    }

    fn read(
        place: Dirs,
        flags: Arc<ResourceFlags>,
        started_in: Arc<PathBuf>,
        verdict: Option<bool>,
    ) -> Project {
        let mut problems = Vec::new();
        let user = read_file(&place.agent_dir.join("settings.json"), &mut problems);
        let default = Layers { user: user.clone(), ..Layers::default() }.settings();
        let flag = approval(&flags, &started_in, &place.cwd);
        let is_elsewhere = flag != flags.approve;
        let said = TrustInputs { flag, verdict, is_elsewhere };
        let is_trusted =
            trust::is_trusted(&place, said, default.default_project_trust, &mut problems);
        // A project that is not trusted decides nothing, not even where its sessions are kept.
        let project = match is_trusted {
            true => read_file(&place.project_dir().join("settings.json"), &mut problems),
            false => Default::default(),
        };
        let layers = Layers { user, project };
        let discovered = Arc::default();
        Project {
            whereabouts: place,
            flags,
            layers,
            is_trusted,
            started_in,
            verdict,
            discovered,
            problems,
        }
    }

    /// The same place looked at anew, or another folder with the same command line.
    pub(crate) fn again(&self, cwd: PathBuf) -> Project {
        let verdict = self.verdict.filter(|_| cwd == self.whereabouts.cwd);
        let whereabouts = Dirs { cwd, ..self.whereabouts.clone() };
        let (flags, started_in) = (self.flags.clone(), self.started_in.clone());
        let discovered = self.discovered.clone();
        Project { discovered, ..Project::read(whereabouts, flags, started_in, verdict) }
    }

    /// Whether extensions may decide if the project is trusted: the command line has not, and
    /// something depends on it.
    pub(crate) fn asks_for_trust(&self) -> bool {
        let flag = approval(&self.flags, &self.started_in, &self.whereabouts.cwd);
        flag.is_none() && trust::is_wanted(&self.whereabouts)
    }

    /// The same place with an extension's word on whether it is trusted, which is kept for the
    /// next time if it wants that. To be looked at [`again`](Place::again).
    pub(crate) fn judged(mut self, trusted: bool, remember: bool) -> Project {
        self.verdict = Some(trusted);
        if remember && let Err(problem) = trust::remember(&self.whereabouts, trusted) {
            self.complain([problem].iter());
        }
        self
    }

    /// Notes where extensions say that there is more. Whether that is news.
    pub(crate) fn discover(&mut self, discovered: ExtensionPaths) -> bool {
        let is_news = *self.discovered != discovered;
        if is_news {
            self.discovered = Arc::new(discovered);
        }
        is_news
    }

    pub(crate) fn discovered(&self) -> &Arc<ExtensionPaths> {
        &self.discovered
    }

    /// What is wrong with settings and trust. Not fatal, but the user should know.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Whether the command line chose the models to cycle through.
    pub(crate) fn has_own_models(&self) -> bool {
        self.flags.own_models
    }

    pub fn settings(&self) -> Settings {
        let mut settings = self.layers.settings();
        let Dirs { cwd, home, .. } = &self.whereabouts;
        let absolute = |dir: PathBuf| resolve(&dir.to_string_lossy(), cwd, home.as_deref());
        settings.session_dir = settings.session_dir.map(absolute);
        if self.flags.usual_todos {
            settings.todo = Default::default();
        }
        settings
    }

    pub(crate) fn cwd(&self) -> &Path {
        &self.whereabouts.cwd
    }

    pub(crate) fn whereabouts(&self) -> &Dirs {
        &self.whereabouts
    }

    /// What the files say, each for itself. The project's says nothing when it is not trusted.
    pub(crate) fn layers(&self) -> &Layers {
        &self.layers
    }

    pub(crate) fn is_trusted(&self) -> bool {
        self.is_trusted
    }

    /// Reads everything that shapes a prompt.
    pub(crate) fn resources(&self) -> Resources {
        Resources::read(self)
    }

    /// Tells the person who started tiller, if somebody listens.
    pub(crate) fn complain<'a>(&self, problems: impl Iterator<Item = &'a String>) {
        problems.for_each(|problem| self.say(&format!("Warning: {problem}")));
    }

    pub(crate) fn say(&self, text: &str) {
        if let Some(complain) = self.flags.complain {
            complain(text);
        }
    }

    fn skill_roots(&self) -> Vec<ResourceOrigin> {
        let (flags, place) = (&self.flags, &self.whereabouts);
        let mut shared: Vec<ResourceOrigin> = Vec::new();
        for dir in place.shared_skill_dirs() {
            let base = dir.parent().unwrap_or(&dir).to_owned();
            shared.push(ResourceOrigin::shared(Scope::Project, base));
        }
        let home = place.home.as_ref().map(|home| home.join(".agents"));
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

    /// Where rules are: ours and xcsh's, the project's first.
    fn rule_roots(&self) -> Vec<ResourceOrigin> {
        let Dirs { cwd, agent_dir, home } = &self.whereabouts;
        let project_dir = self.whereabouts.project_dir();
        let mut roots = Vec::new();
        if self.flags.no_rules {
            return roots;
        }
        if self.is_trusted {
            roots.push(ResourceOrigin::usual(Scope::Project, project_dir.clone(), "rules"));
            let inner = project_dir.join("agent");
            if inner != *agent_dir {
                roots.push(ResourceOrigin::usual(Scope::Project, inner, "rules"));
            }
            roots.push(ResourceOrigin::usual(Scope::Project, cwd.join(".xcsh"), "rules"));
        }
        roots.push(ResourceOrigin::usual(Scope::User, agent_dir.clone(), "rules"));
        let theirs = home.as_ref().map(|home| home.join(".xcsh/agent"));
        roots.extend(theirs.map(|base| ResourceOrigin::usual(Scope::User, base, "rules")));
        roots
    }

    /// The places of one kind of file, the most particular first; those that the command line
    /// names come last, and they alone when it says so.
    fn roots(
        &self,
        kind: &str,
        only_named: bool,
        named: &[String],
        project_shared: Vec<ResourceOrigin>,
        user_shared: Vec<ResourceOrigin>,
    ) -> Vec<ResourceOrigin> {
        let Dirs { cwd, agent_dir, home } = &self.whereabouts;
        let project_dir = self.whereabouts.project_dir();
        let mut roots = Vec::new();
        if !only_named {
            let places = Places { project: &project_dir, user: agent_dir, home: home.as_deref() };
            let listed = self.layers.listed(kind, &places);
            let listed_in = |scope: Scope| {
                let of_scope = listed.iter().filter(move |listed| listed.scope == scope);
                of_scope.map(move |listed| ResourceOrigin::named(scope, listed.path.clone()))
            };
            if self.is_trusted {
                roots.extend(listed_in(Scope::Project));
                roots.push(ResourceOrigin::usual(Scope::Project, project_dir.clone(), kind));
                let inner = project_dir.join("agent");
                if inner != *agent_dir {
                    roots.push(ResourceOrigin::usual(Scope::Project, inner, kind));
                }
                roots.extend(project_shared);
            }
            roots.extend(listed_in(Scope::User));
            roots.push(ResourceOrigin::usual(Scope::User, agent_dir.clone(), kind));
            roots.extend(user_shared);
        }
        let named = named.iter().map(|path| resolve(path, cwd, home.as_deref()));
        roots.extend(named.map(|path| ResourceOrigin::named(Scope::Process, path)));
        roots
    }
}

/// What the command line says about this folder: an approval is for the folder that tiller was
/// started in, a refusal for all of them.
fn approval(flags: &ResourceFlags, started_in: &Path, cwd: &Path) -> Option<bool> {
    let is_same = || {
        let real = |path: &Path| std::fs::canonicalize(path).ok();
        cwd == started_in || real(cwd).is_some_and(|cwd| Some(cwd) == real(started_in))
    };
    flags.approve.filter(|approved| !approved || is_same())
}

impl Dirs {
    pub(crate) fn project_dir(&self) -> PathBuf {
        self.cwd.join(".pi")
    }

    /// The skills that a project shares with other programs: in the working directory and the
    /// folders around it, up to the root of the repository. Those in the user's home are theirs.
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
