//! What a sandbox allows: which files can be changed, which cannot even be read, and whether there
//! is a network. Made of the mode and of the folders of the user.

use std::path::{Path, PathBuf};

use tiller_agent::sandbox::SandboxMode;

/// What the command line and the settings say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SandboxConfig {
    pub mode: SandboxMode,
    /// Whether tools may use the network.
    pub network: bool,
    /// Further folders in which files may be changed.
    pub write_roots: Vec<PathBuf>,
    /// Whether tools run although something cannot be enforced.
    pub best_effort: bool,
}

/// The folders that a policy is about. All are absolute and without links.
#[derive(Clone, Debug, PartialEq)]
pub struct Places {
    pub cwd: PathBuf,
    pub home: Option<PathBuf>,
    /// The folder of settings, keys and sessions.
    pub agent_dir: PathBuf,
    /// Where sessions are stored, if not in the agent folder.
    pub session_dir: Option<PathBuf>,
    /// Whether the user is root.
    pub is_root: bool,
}

/// What a sandbox allows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Policy {
    /// Files in these folders can be changed.
    pub(crate) writable: Vec<PathBuf>,
    /// These files and folders cannot be read.
    pub(crate) hidden: Vec<PathBuf>,
    pub(crate) network: bool,
    /// The folder of tiller's own files, which it makes when it needs them.
    agent_dir: PathBuf,
}

/// Where programs keep the user's keys, in the home folder.
const HOME_SECRETS: &[&str] = &[
    ".aws",
    ".azure",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".config/gcloud",
    ".config/gh",
    ".config/hub",
    ".docker/config.json",
    ".git-credentials",
    ".gnupg",
    ".kube",
    ".local/share/keyrings",
    ".mozilla",
    ".netrc",
    ".npmrc",
    ".password-store",
    ".pgpass",
    ".pypirc",
    ".ssh",
    ".vault-token",
];

/// tiller's own files with keys, tokens and conversations, in the agent folder.
const AGENT_SECRETS: &[&str] = &["auth.json", "models.json", "serve-token", "sessions"];

/// What only root can read anyway, and the memory of the kernel.
const ROOT_SECRETS: &[&str] = &["/etc/shadow", "/etc/gshadow", "/etc/shadow-", "/etc/gshadow-"];

impl Policy {
    pub(crate) fn new(config: &SandboxConfig, places: &Places) -> Policy {
        let workspace = (config.mode == SandboxMode::WorkspaceWrite).then(|| places.cwd.clone());
        let of_home = places.home.iter().flat_map(|home| {
            let with = |name: &&str| home.join(name);
            HOME_SECRETS.iter().map(with).collect::<Vec<_>>()
        });
        let of_agent = AGENT_SECRETS.iter().map(|name| places.agent_dir.join(name));
        let of_root = ROOT_SECRETS.iter().filter(|_| places.is_root).map(PathBuf::from);
        Policy {
            writable: workspace.into_iter().chain(config.write_roots.iter().cloned()).collect(),
            hidden: of_home
                .chain(of_agent)
                .chain(places.session_dir.clone())
                .chain(of_root)
                .collect(),
            network: config.network,
            agent_dir: places.agent_dir.clone(),
        }
    }

    /// The same with the places that links among the hidden paths lead to.
    pub(crate) fn with_links_resolved(mut self) -> Policy {
        let real = |path: &PathBuf| path.canonicalize().ok().filter(|real| real != path);
        let behind_links: Vec<PathBuf> = self.hidden.iter().filter_map(real).collect();
        self.hidden.extend(behind_links);
        self
    }

    /// A hidden path inside a writable folder, where it cannot be hidden.
    pub(crate) fn conflict(&self) -> Option<(&Path, &Path)> {
        let there = self.hidden.iter().filter(|hidden| hidden.exists());
        let mut all = there.chain([&self.agent_dir]);
        all.find_map(|hidden| {
            let root = self.writable.iter().find(|root| hidden.starts_with(root))?;
            Some((hidden.as_path(), root.as_path()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> Places {
        Places {
            cwd: "/home/u/project".into(),
            home: Some("/home/u".into()),
            agent_dir: "/home/u/.pi/agent".into(),
            session_dir: None,
            is_root: false,
        }
    }

    #[test]
    fn writable_folders_by_mode() {
        for (mode, extra, expected) in [
            (SandboxMode::ReadOnly, &[][..], &[][..]),
            (SandboxMode::ReadOnly, &["/data"], &["/data"]),
            (SandboxMode::WorkspaceWrite, &[], &["/home/u/project"]),
            (SandboxMode::WorkspaceWrite, &["/data"], &["/home/u/project", "/data"]),
        ] {
            let write_roots = extra.iter().map(PathBuf::from).collect();
            let config = SandboxConfig { mode, write_roots, ..SandboxConfig::default() };
            let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
            assert_eq!(Policy::new(&config, &places()).writable, expected, "{mode:?} {extra:?}");
        }
    }

    #[test]
    fn keys_and_sessions_are_hidden() {
        let config = SandboxConfig::default();
        let hidden = |places: Places| Policy::new(&config, &places).hidden;
        let of_user = hidden(places());
        for path in ["/home/u/.ssh", "/home/u/.pi/agent/auth.json", "/home/u/.pi/agent/sessions"] {
            assert!(of_user.contains(&path.into()), "{path}");
        }
        assert!(!of_user.contains(&"/etc/shadow".into()));
        let elsewhere = Places {
            session_dir: Some("/var/sessions".into()),
            is_root: true,
            home: None,
            ..places()
        };
        let of_root = hidden(elsewhere);
        for path in ["/var/sessions", "/etc/shadow", "/home/u/.pi/agent/auth.json"] {
            assert!(of_root.contains(&path.into()), "{path}");
        }
        assert!(!of_root.contains(&"/home/u/.ssh".into()));
    }

    #[test]
    fn secret_in_a_writable_folder_is_a_conflict() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join(".ssh")).unwrap();
        let policy = |cwd: &Path| {
            let mode = SandboxMode::WorkspaceWrite;
            let home = Some(home.path().to_owned());
            let agent_dir = "/nowhere".into();
            let places = Places { cwd: cwd.to_owned(), home, agent_dir, ..places() };
            Policy::new(&SandboxConfig { mode, ..SandboxConfig::default() }, &places)
        };
        let conflicting = policy(home.path());
        let (hidden, root) = conflicting.conflict().unwrap();
        assert_eq!((hidden, root), (&*home.path().join(".ssh"), home.path()));
        assert_eq!(policy(&home.path().join("project")).conflict(), None);
    }
}
