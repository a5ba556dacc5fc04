//! Images that xcsh stores outside its session files. An entry holds only an address; the bytes lie
//! in a folder shared by all sessions, named by their hash.

use std::io::Read;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tiller_agent::message::{Block, Content, CustomMessage, Message, UserMessage};

use crate::open;

/// The prefix of an address; the hash follows.
const ADDRESS: &str = "blob:sha256:";
const HASH_CHARS: usize = 64;

/// Larger files are ignored: no model accepts an image of this size.
const BYTES_MAX: u64 = 32 * 1024 * 1024;

/// Quick check whether a line may contain an address. It runs on every line of a context.
pub(crate) fn may_be_in(line: &str) -> bool {
    memchr::memmem::find(line.as_bytes(), ADDRESS.as_bytes()).is_some()
}

/// The blob folder of a session file, if the file lies where xcsh puts its sessions.
pub(crate) struct Blobs(Option<PathBuf>);

impl Blobs {
    /// `<agent folder>/blobs`, for `<agent folder>/sessions/<folder>/<file>`.
    pub(crate) fn next_to(session: Option<&Path>) -> Blobs {
        let sessions = session.and_then(|file| file.parent()?.parent());
        Blobs(sessions.and_then(Path::parent).map(|agent| agent.join("blobs")))
    }

    /// Replaces addresses by images. A missing image is replaced by a note: sent as an image, the
    /// address would make every further request fail.
    pub(crate) fn restore(&self, message: &mut Message) {
        for block in blocks_of(message) {
            if let Block::Image { data, .. } = block
                && let Some(hash) = data.strip_prefix(ADDRESS)
            {
                match self.read(hash) {
                    Some(bytes) => *data = STANDARD.encode(bytes),
                    None => *block = Block::text("(image is not stored in this session file)"),
                }
            }
        }
    }

    /// Returns the entry's line with images inlined, as far as they exist, for a file that may lie
    /// elsewhere. Inside a text the quotes around an address are escaped, so only whole JSON values
    /// match.
    pub(crate) fn inline(&self, line: String) -> String {
        const OPENING: &str = "\"blob:sha256:";
        let mut restored = String::new();
        let mut rest = line.as_str();
        while let Some(at) = rest.find(OPENING) {
            let (before, from) = rest.split_at(at + OPENING.len());
            let hash = from.get(..HASH_CHARS).filter(|_| from[HASH_CHARS..].starts_with('"'));
            match hash.and_then(|hash| self.read(hash)) {
                Some(bytes) => {
                    restored.push_str(&before[..at + 1]);
                    restored.push_str(&STANDARD.encode(bytes));
                    rest = &from[HASH_CHARS..];
                }
                None => {
                    restored.push_str(before);
                    rest = from;
                }
            }
        }
        if restored.is_empty() {
            return line;
        }
        restored + rest
    }

    fn read(&self, hash: &str) -> Option<Vec<u8>> {
        let is_hash = hash.len() == HASH_CHARS && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        let path = self.0.as_ref().filter(|_| is_hash)?.join(hash);
        // A link may point at any file of the user's, and opening a pipe would block.
        let file = open::plain_file(&path).ok()?;
        if file.metadata().ok()?.len() > BYTES_MAX {
            return None;
        }
        let mut bytes = Vec::new();
        file.take(BYTES_MAX).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }
}

fn blocks_of(message: &mut Message) -> &mut [Block] {
    match message {
        Message::User(UserMessage { content: Content::Blocks(blocks), .. })
        | Message::Custom(CustomMessage { content: Content::Blocks(blocks), .. }) => blocks,
        Message::Assistant(assistant) => &mut assistant.content,
        Message::ToolResult(result) => &mut result.content,
        _ => &mut [],
    }
}
