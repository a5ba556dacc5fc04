//! How much a power failure may lose.
//!
//! Every entry is handed to the operating system before it is announced, so killing the process
//! loses nothing. Whether it is also on the disk has a price: a sync takes from one to many
//! milliseconds. This is the setting `session.durability`.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Loses at most the work of the current run, never a user message.
    #[default]
    Run,
    /// Loses nothing that was announced.
    Entry,
    /// The operating system decides when to write, as with pi.
    Os,
}

impl Durability {
    pub fn read(name: &str) -> Option<Durability> {
        match name {
            "run" => Some(Durability::Run),
            "entry" => Some(Durability::Entry),
            "os" => Some(Durability::Os),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Durability::Run => "run",
            Durability::Entry => "entry",
            Durability::Os => "os",
        }
    }

    /// Whether to sync after appending an entry and before announcing it.
    pub fn syncs_after_entry(self, is_user_message: bool) -> bool {
        match self {
            Durability::Entry => true,
            Durability::Run => is_user_message,
            Durability::Os => false,
        }
    }

    /// Whether to sync after a run and before closing a session.
    pub fn syncs_after_run(self) -> bool {
        self != Durability::Os
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durability_says_when_to_sync() {
        let syncs = |name: &str| {
            let durability = Durability::read(name).unwrap();
            assert_eq!(durability.name(), name);
            let after_entry = [true, false].map(|is_user| durability.syncs_after_entry(is_user));
            (after_entry, durability.syncs_after_run())
        };
        assert_eq!(syncs("run"), ([true, false], true));
        assert_eq!(syncs("entry"), ([true, true], true));
        assert_eq!(syncs("os"), ([false, false], false));
        assert_eq!(Durability::read("never"), None);
    }
}
